"""A test of one path over RDMA, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

HOST_MEMORY = "host"


@dataclass(frozen=True, order=True)
class End:
    """One end of a path."""

    node: str
    rail: int
    # `host`, `numa0`, `numa1`, … for memory of that NUMA node, or `gpu0`, `gpu1`, …
    memory: str = HOST_MEMORY


@dataclass(frozen=True, order=True)
class PathTest:
    """One perftest: the client, which sends, and the server, which receives."""

    sender: End  # the client's end
    receiver: End  # the server's end; the same node and rail for a loopback
    measures: str = "bandwidth"  # `bandwidth` (ib_write_bw) or `latency` (ib_write_lat)
    size: int = 1 << 20  # bytes of a message

    @property
    def is_loopback(self) -> bool:
        """Return whether it leaves no NIC."""
        return (self.sender.node, self.sender.rail) == (self.receiver.node, self.receiver.rail)


@dataclass(frozen=True)
class PathResult:
    """What came of a test."""

    test: PathTest
    gb_s: float = 0.0  # mean bandwidth of payload, GB/s; 0 if it is not known
    usec: float = 0.0  # typical latency of one direction, µs; 0 if it is not known
    # why there is no number, as one word that `verbs` knows (`no-server`, `no-answer`, `timeout`,
    # `killed`, `completion`, `refused`, `no-perftest`, `no-gpu-memory`, …); empty if there is one
    error: str = ""
    said: str = ""  # what perftest said of it, masked and cut; data from a stranger


class PathMeasurer(Protocol):
    """Whoever runs tests side by side: nodes, or a made-up fleet."""

    def measure(self, tests: Sequence[PathTest]) -> Mapping[PathTest, PathResult]:
        """Run all tests at once and return what came of each; none is missing.

        A rail sends in at most one test, and receives in at most one, of each kind of memory.
        """
        ...
