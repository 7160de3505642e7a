"""An InfiniBand subnet: ports, links, forwarding tables."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

NO_PORT = 255  # in a forwarding table: no route (InfiniBand Architecture 1.5, 14.2.5.10)
MOST_LID = 0xBFFF  # the last unicast LID (InfiniBand Architecture 1.5, 4.1.3)


class Kind(StrEnum):
    """The kind of a node, as ibnetdiscover writes it."""

    SWITCH = "SW"
    HCA = "CA"
    ROUTER = "RT"


@dataclass(frozen=True)
class PortEnd:
    """One port. The GUID of a switch is its node's, of any other kind its port's."""

    kind: Kind
    guid: int
    lid: int
    port: int
    name: str

    @property
    def key(self) -> tuple[int, int]:
        """Return what tells this port from all others."""
        return self.guid, self.port


@dataclass(frozen=True)
class Cable:
    """A link, from both ends; `width` in lanes, `lane_gbps` the rate of one, 0 if unknown."""

    near: PortEnd
    far: PortEnd
    width: int
    lane_gbps: float
    speed: str = ""

    @property
    def gbps(self) -> float:
        """Return the rate of the link, in Gb/s."""
        return self.width * self.lane_gbps

    def rate(self) -> str:
        """Return the rate as ibnetdiscover writes it."""
        return f"{self.width}x {self.speed}"


@dataclass(frozen=True)
class Discovery:
    """What ibnetdiscover saw; every link once, and the ports without a link."""

    cables: tuple[Cable, ...]
    free: tuple[PortEnd, ...]
    is_cut: bool = False  # the text ends before all ports were listed


@dataclass
class ForwardingTable:
    """The forwarding table of one switch: `ports[LID]` is the port that its packets leave by.

    `top` is the last LID that the tool says it prints.
    """

    guid: int
    name: str
    ports: bytearray
    top: int = 0
    entries: int = 0
    is_whole: bool = False


@dataclass(frozen=True)
class PortState:
    """One port as iblinkinfo prints it; `could_be` is what both ends could do, if more."""

    guid: int
    port: int
    name: str
    state: str
    physical: str
    width: int = 0
    lane_gbps: float = 0.0
    could_be: tuple[str, ...] = ()
    peer: str = ""


@dataclass(frozen=True)
class Reading:
    """The counters of one port, by name."""

    name: str
    port: int
    counters: dict[str, int]
    guid: int = 0
    lid: int = 0


@dataclass(frozen=True)
class Manager:
    """A subnet manager as sminfo prints it."""

    lid: int
    guid: int
    state: str
    priority: int


class UnreadFile(NamedTuple):
    """A file that does not tell all, and why, such as "is cut"."""

    name: str
    why: str


@dataclass
class Subnet:
    """All that a directory says; what could not be read is in `not_verified`.

    `known_managers` has the LIDs of all managers that the master knows; None if it was not asked.
    """

    discovery: Discovery = field(default_factory=lambda: Discovery((), ()))
    tables: dict[int, ForwardingTable] = field(default_factory=dict)
    states: list[PortState] = field(default_factory=list)
    errors: list[Reading] = field(default_factory=list)
    readings: list[list[Reading]] = field(default_factory=list)
    managers: list[Manager] = field(default_factory=list)
    known_managers: list[int] | None = None
    manager_failed: str = ""
    not_verified: list[UnreadFile] = field(default_factory=list)

    def lacks(self, name: str, why: str) -> None:
        """Note that a file does not tell all."""
        self.not_verified.append(UnreadFile(name, why))
