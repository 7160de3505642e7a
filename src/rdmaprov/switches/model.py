"""What a switch says of itself; None stands for what its answers lack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SwitchSystem(StrEnum):
    """The operating system of a switch."""

    SONIC = "SONiC"
    CUMULUS = "Cumulus Linux"
    ARISTA = "Arista EOS"

    @property
    def keyword(self) -> str:
        """Return the name on the command line."""
        return self.name.lower()


class SwitchFact(StrEnum):
    """A kind of setting or counter; the values are the keys of --json."""

    PFC = "pfc"
    TRUST = "trust"
    DSCP_MAP = "dscp_map"
    ECN = "ecn"
    MTU = "mtu"
    BUFFERS = "buffers"
    WEIGHTS = "weights"
    WATCHDOG = "watchdog"
    DROPS = "drops"


@dataclass(frozen=True)
class EcnCurve:
    """How a queue marks packets."""

    is_on: bool
    least: float | None = None  # length of the queue from which it marks
    most: float | None = None  # length from which it marks with `percent`
    unit: str = "bytes"  # of both, such as bytes or segments
    percent: float | None = None


@dataclass(frozen=True)
class QueueShare:
    """How a queue is served: strictly first, or with a weight (percent, if the switch says so)."""

    is_strict: bool
    weight: int | None = None


@dataclass(frozen=True)
class PfcWatchdog:
    """The watchdog for storms of pause; `storms` are those that it counted.

    `stormed` are the queues that it holds, as their storm had not ended.
    """

    is_on: bool | None
    action: str = ""
    storms: int | None = None
    stormed: tuple[int, ...] = ()


@dataclass(frozen=True)
class SwitchPort:
    """One port of a switch."""

    name: str
    description: str = ""
    neighbour: str = ""  # the host or switch at the other end, by LLDP or as it is configured
    is_up: bool | None = None  # whether it has a link, or may have one
    speed_gbps: int | None = None  # its rate
    mtu_bytes: int | None = None  # the largest IP packet
    pfc_rx: frozenset[int] | None = None
    pfc_tx: frozenset[int] | None = None  # priorities for which the port sends pause frames
    # whether DSCP, rather than PCP, decides on the class of a packet
    trusts_dscp: bool | None = None
    # DSCP to class: a traffic class, or Cumulus' switch priority
    dscp_class: Mapping[int, int] | None = None
    class_queue: Mapping[int, int] | None = None  # class to the queue that it leaves by
    # priority of a pause frame to the queue that it stops; None: by the class of the same number
    priority_queue: Mapping[int, int] | None = None
    # class to priority group, the buffer in which it arrives
    class_group: Mapping[int, int] | None = None
    # priority groups that have room for what arrives after a pause
    lossless_groups: frozenset[int] | None = None
    # priority group to the fill from which it pauses, where that is a fixed number
    xoff_bytes: Mapping[int, int] | None = None
    ecn: Mapping[int, EcnCurve] | None = None  # by queue; a queue that is missing does not mark
    shares: Mapping[int, QueueShare] | None = None  # by queue
    watchdog: PfcWatchdog | None = None
    drops: Mapping[str, int] | None = None  # packets dropped so far, by what they are of
    pauses_rx: Mapping[int, int] | None = None  # pause frames received so far, by priority
    pauses_tx: Mapping[int, int] | None = None  # pause frames sent so far, by priority
    # by fact, the map or profile that says it, or that can; a remedy names it
    named: Mapping[SwitchFact, str] = field(default_factory=dict)

    def class_of(self, dscp: int) -> int | None:
        """Return the class of a DSCP, None if that is not known."""
        return None if self.dscp_class is None else self.dscp_class.get(dscp)

    def queue_of(self, number: int) -> int | None:
        """Return the queue by which a class leaves, None if that is not known."""
        return None if self.class_queue is None else self.class_queue.get(number)

    def queue_for(self, dscp: int) -> int | None:
        """Return the queue by which a DSCP leaves, None if that is not known."""
        number = self.class_of(dscp)
        return None if number is None else self.queue_of(number)

    def pausing(self, number: int) -> frozenset[int]:
        """Return the priorities whose pause frames stop a class."""
        queue = self.queue_of(number)
        if self.priority_queue is None or queue is None:
            return frozenset({number})
        return frozenset(each for each, stops in self.priority_queue.items() if stops == queue)


@dataclass(frozen=True)
class SwitchReading:
    """A switch, read."""

    name: str  # its own, or that of the directory or file of its answers
    system: SwitchSystem | None  # None if no answer is known
    ports: tuple[SwitchPort, ...] = ()  # in the order of the answers
    # by fact, the command or table that says it
    where: Mapping[SwitchFact, str] = field(default_factory=dict)
    not_read: tuple[str, ...] = ()  # answers, or parts of them, that cannot be read, and why
