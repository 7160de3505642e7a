"""What lines of an NCCL log say, as values."""

from typing import NamedTuple

# Named tuples, not dataclasses: each of the millions of lines of a large job becomes one.


class Source(NamedTuple):
    """Who wrote a line: a process, and the CUDA device of its thread; ("", 0, -1) if unsaid."""

    host: str
    pid: int
    gpu: int


class NetChannel(NamedTuple):
    """One end of a connection through a network: NET between two ranks, COLLNET into the switch."""

    channel: int
    connection: int  # 0: collectives, more: send and receive (2.12 and later)
    rank: int  # the rank that wrote the line
    peer: int | None  # None for COLLNET
    sends: bool
    network: str  # the plugin's name, such as IB or Socket
    device: int  # the plugin's number of the device
    gdr: bool
    collnet: bool


class LocalChannel(NamedTuple):
    """A connection within NVLink or a host, as its sender wrote it."""

    rank: int
    peer: int
    kind: str  # "P2P/IPC", "P2P/CUMEM", "P2P/MNNVL", "SHM", ...
    lasting: bool  # the version numbers connections, and this one is for collectives


class Communicator(NamedTuple):
    """One step of a communicator's life: `Init START`, `Init COMPLETE`, or its count of nodes."""

    pointer: str
    rank: int
    ranks: int
    identity: str | None  # commId, the same on all its ranks (2.16 and later)
    nodes: int | None  # 2.20 and later
    step: str  # "START", "COMPLETE" or ""


class Device(NamedTuple):
    """An RDMA port as NET/IB lists it, or several that were merged into one."""

    names: tuple[str, ...]
    layers: frozenset[str]  # "IB", "RoCE"


class DeviceList(NamedTuple):
    """`NET/IB : Using`: what a process found, by NCCL's number."""

    found: tuple[Device, ...]


class MergedDevice(NamedTuple):
    """A device that was made of others (2.24 and later; needs NCCL_DEBUG_SUBSYS=NET)."""

    device: int
    names: tuple[str, ...]


class Connected(NamedTuple):
    """`Connected all rings` and its like: the rank has listed the channels of one algorithm."""


class Hint(NamedTuple):
    """Something that explains why a network was not used, or not with GPUDirect RDMA."""

    kind: str
    text: str


class Tuning(NamedTuple):
    """What NCCL took for one collective; `tuning.AlgorithmChoice` says what the fields are."""

    function: str
    bytes: int
    algorithm: str
    protocol: str


class Plugin(NamedTuple):
    """`P2P plugin`: what nccl-rdma-sharp-plugins sends by, such as IBext_v8 or UCX."""

    name: str


class Unreadable(NamedTuple):
    """A line about a channel, in no form that is known."""

    text: str
