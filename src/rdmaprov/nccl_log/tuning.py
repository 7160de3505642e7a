"""Which algorithm and protocol NCCL took for a size, from its TUNING lines.

Rank 0 of each communicator writes them with NCCL_DEBUG_SUBSYS=TUNING (github.com/NVIDIA/nccl,
src/enqueue.cc at v2.20.3-1 to v2.30.7-1): one for each collective, without the communicator's name.
Up to 2.23 algorithm and protocol are numbers (src/include/plugin/nccl_tuner.h).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from rdmaprov.nccl_log.events import Tuning

_LINE = re.compile(
    rb"(?:(\w{1,32})(?: \[Symmetric\])?: )?(\d{1,15}) Bytes -> "
    rb"(?:Algo (\w{1,24}) proto (\w{1,12})|Kernel \w{1,64})\b"
)
_ALGORITHMS = ("tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
SYMMETRIC = "symmetric"


@dataclass(frozen=True, slots=True, order=True)
class AlgorithmChoice:
    """What NCCL took for one size of a collective."""

    ranks: int  # of the communicator that its process had made last; 0 if the log does not say
    function: str  # such as AllReduce; empty up to 2.22, which does not say it
    bytes: int  # of the message
    algorithm: str  # such as ring, tree, nvlstree, collnetdirect, or symmetric
    protocol: str  # ll, ll128 or simple; empty if it is symmetric
    count: int


def parse_tuning(message: bytes) -> Tuning | None:
    """Return what a message says of the algorithm that was taken, None if it says nothing."""
    found = _LINE.match(message)
    if found is None:
        return None
    function, size, algorithm, protocol = found.groups()
    return Tuning(
        (function or b"").decode(),
        int(size),
        _name(algorithm, _ALGORITHMS) if algorithm else SYMMETRIC,
        _name(protocol, _PROTOCOLS) if protocol else "",
    )


def _name(said: bytes, names: tuple[str, ...]) -> str:
    """Return the name that a number or a name in any case means."""
    text = said.decode()
    if text.isdecimal():
        return names[int(text)] if int(text) < len(names) else text
    return text.lower().replace("_", "")


def taken_algorithm(
    choices: Collection[AlgorithmChoice], function: str, size: int, ranks: int
) -> str | None:
    """Return the algorithm that was taken for a size, None if there is none, or more than one.

    Args:
        function: such as AllReduce.
        size: of the message, in bytes.
    """
    found = {
        choice.algorithm
        for choice in choices
        if choice.bytes == size and choice.function in {function, ""} and choice.ranks in {ranks, 0}
    }
    return found.pop() if len(found) == 1 else None


@dataclass(frozen=True, slots=True)
class SizeRange:
    """Sizes that follow each other and took the same: from the least to the largest, in bytes."""

    ranks: int
    function: str
    low: int
    high: int
    taken: str


def size_ranges(choices: Collection[AlgorithmChoice]) -> Iterator[SizeRange]:
    """Yield what was taken by ranges of sizes; of a size with several, all of them."""

    def size(choice: AlgorithmChoice) -> tuple[int, str, int]:
        return choice.ranks, choice.function, choice.bytes

    sizes = [
        (*key, " or ".join(sorted({f"{c.algorithm} {c.protocol}".strip() for c in own})))
        for key, own in groupby(sorted(choices), size)
    ]
    for (ranks, function, taken), own in groupby(sizes, lambda one: (one[0], one[1], one[3])):
        found = [one[2] for one in own]
        yield SizeRange(ranks, function, found[0], found[-1], taken)
