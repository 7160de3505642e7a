"""What NCCL's logs say of a job: each rank's channels, and what is missing from them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rdmaprov.nccl_log.completion import CompletionError
from rdmaprov.nccl_log.diagnostics import DiagnosticLine
from rdmaprov.nccl_log.troubles import TroubleTally
from rdmaprov.nccl_log.tuning import AlgorithmChoice


class Transport(StrEnum):
    """How bytes leave a node; UNKNOWN is what the log does not prove."""

    IB = "ib"
    ROCE = "roce"
    SOCKET = "socket"
    OFI = "ofi"
    P2P = "p2p"  # nothing leaves: NVLink, PCIe or shared memory
    MIXED = "mixed"
    UNKNOWN = "unknown"


class Gdr(StrEnum):
    """How many channels through a network use GPUDirect RDMA."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, order=True)
class LogRank:
    """A rank of a communicator; a process that is in several has one for each number."""

    number: int
    host: str
    pid: int
    gpu: int

    def __str__(self) -> str:
        """Return the rank as messages name it."""
        return f"rank {self.number} ({self.host or '?'} gpu {self.gpu})"


@dataclass(frozen=True, slots=True)
class Channel:
    """One end of a channel through a network."""

    rank: LogRank  # the rank whose log says so
    number: int
    sends: bool  # the direction; a connection that is used both ways is two channels
    # the other rank; None for a switch (CollNet), and for NCCL's send and receive, of which one
    # channel may have thousands
    peer: int | None
    transport: Transport  # IB, ROCE, SOCKET, OFI or UNKNOWN
    network: str  # the name of NCCL's network, such as IB, Socket or AWS Libfabric
    device: int  # that network's number of the device
    # names of the RDMA devices; several when merged, none when the log does not name them
    hcas: tuple[str, ...]
    gdr: bool
    collnet: bool  # the channel is to a reducing switch (SHARP)

    @property
    def hca(self) -> str:
        """Return the device's name, NCCL's own name for it when the log has no other."""
        return "+".join(self.hcas) or f"{self.network}/{self.device}"

    def __str__(self) -> str:
        """Return the channel as messages name it."""
        way = "send" if self.sends else "receive"
        peer = "" if self.peer is None else f" {'to' if self.sends else 'from'} rank {self.peer}"
        return f"{self.rank} channel {self.number:02d} {way}{peer} via {self.hca}"


@dataclass(frozen=True)
class RankConnections:
    """A rank's connections within its node or NVLink domain: how many, by kind."""

    rank: LogRank
    local: Mapping[str, int]


@dataclass(frozen=True)
class Process:
    """What a process said of networks."""

    host: str
    pid: int
    hcas: tuple[str, ...]  # RDMA devices that it found
    hints: Mapping[str, str]  # what explains why a network was not used, by kind, as NCCL wrote it
    # its network, version and variables of the environment, by name
    said: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Matrix:
    """All that the logs of one job say about transports."""

    channels: tuple[Channel, ...]  # channels through a network, by rank and number
    members: tuple[RankConnections, ...]  # every rank that has a channel of any kind
    processes: tuple[Process, ...]
    local_only: bool  # proven: no communicator has more than one node (or NVLink domain)
    size: int  # ranks of the largest communicator, 0 if the log does not say
    absent: tuple[int, ...]  # ranks that must exist, of which there is no line
    unfinished: tuple[str, ...]  # ranks whose log ends before their channels were all listed
    # lines about channels in a form that is not known: how many, and the first
    unreadable: tuple[int, str]
    silent: tuple[str, ...]  # files without a line of NCCL's
    versions: tuple[str, ...]  # NCCL's versions, sorted
    errors: tuple[CompletionError, ...] = ()  # completions with error, by host and rank
    # the algorithms that NCCL took, by communicator and size
    choices: tuple[AlgorithmChoice, ...] = ()
    # hosts of which a log ends before its channels were all listed
    unfinished_hosts: frozenset[str] = frozenset()
    diagnostics: tuple[DiagnosticLine, ...] = ()  # results of NCCL's diagnostics, each once
    # what the logs say of errors, and of the end
    broken: TroubleTally = field(default_factory=TroubleTally)

    @property
    def crosses_hosts(self) -> bool:
        """Return whether NVLink connects hosts, which NCCL then counts as one node."""
        return any("P2P/MNNVL" in member.local for member in self.members)


@dataclass(frozen=True)
class TransportVerdict:
    """What a matrix amounts to, of the channels between nodes."""

    transport: Transport
    gdr: Gdr
    hcas: tuple[str, ...]
    sharp: bool
    nccl_version: str | None


def format_ranks(channels: list[Channel]) -> str:
    """Return the ranks of channels, such as `ranks 0-3`."""
    return format_numbers(sorted({channel.rank.number for channel in channels}))


def format_numbers(found: Collection[int]) -> str:
    """Return ranks by their numbers, such as `rank 7`."""
    return f"rank{'s' if len(found) > 1 else ''} {format_ranges(found)}"


def format_ranges(found: Collection[int]) -> str:
    """Return numbers as people write them, such as 0-7,9; at most 20 runs."""
    runs: list[list[int]] = []
    for number in sorted(found):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ",".join("-".join(str(end) for end in run) for run in runs[:20])
    return text + (",..." if len(runs) > 20 else "")


def format_count(channels: list[Channel]) -> str:
    """Return how many channels there are, such as `2 channels`."""
    return f"{len(channels)} channel{'s' if len(channels) > 1 else ''}"
