"""What a node's sampler wrote, checked: bytes of a stranger into columns of numbers."""

from __future__ import annotations

import re
import sys
import zlib
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rdmaprov.boundary import OddAnswer, fields, integer, list_of, number, parse_answer, text

MOST_PACKED = 512 << 10  # the sampler keeps to half of it
MOST_INFLATED = 32 << 20  # 16 rails with all columns take 28 MiB
MOST_ROWS = 8192
_MOST_COLUMNS = 4096
_MOST_HEAD = 512 << 10
_WIDTH = 8  # bytes of a number
_DAY_US = 86_400_000_000
_COLUMN = text(r"[0-9]{1,3}/[\w.]{1,80}")
_TABLE = fields(
    {
        "every_s": number(3600, least=0.001),
        "rows": integer(0, MOST_ROWS),
        "columns": list_of(_COLUMN, _MOST_COLUMNS),
        "still": list_of(_COLUMN, _MOST_COLUMNS),
    }
)
_HEAD = fields(
    {
        "wall": list_of(number(1 << 40), 2, least=2),
        "lasted_us": integer(0, _DAY_US),
        "longest_us": integer(0, _DAY_US),
        "cpu_s": number(86_400),
        "tables": list_of(_TABLE, 2, least=2),
    }
)


@dataclass(frozen=True)
class SampleTable:
    """Counters that were read at the same times."""

    every_s: float  # seconds from one row to the next, as intended
    ends_s: list[float]  # when each row ends, in seconds since the sampler began
    # how much a counter grew in each row, by rail and name
    grown: Mapping[tuple[int, str], array[int]]
    still: frozenset[tuple[int, str]]

    def column(self, rail: int, name: str) -> array[int] | None:
        """Return a counter's growth by row, None if it was not read."""
        if (rail, name) in self.still:
            return array("Q", bytes(_WIDTH * len(self.ends_s)))
        return self.grown.get((rail, name))

    def total(self, rail: int, name: str) -> int:
        """Return how much a counter grew, 0 if it was not read."""
        return sum(self.grown.get((rail, name), ()))

    @cached_property
    def widths_s(self) -> list[float]:
        """Return how long each row is."""
        return [b - a for a, b in zip([0.0, *self.ends_s], self.ends_s, strict=False)]


@dataclass(frozen=True)
class NodeSamples:
    """The samples of one node."""

    began: float  # the node's clock at the start, in seconds since 1970
    lasted_s: float  # how long it sampled
    clock_step_s: float  # how far its clock was set meanwhile
    # the longest that reading took once; seconds mean a device that does not answer
    longest_s: float
    cpu_share: float  # of one core
    fast: SampleTable  # bytes, waits, marks and the link
    slow: SampleTable  # what is read each second


def parse_samples(data: bytes, rails: int) -> NodeSamples:
    """Return what a sampler wrote; raise OddAnswer if it is too large, or of another shape."""
    plain = memoryview(_inflate(data))
    end = bytes(plain[:_MOST_HEAD]).find(b"\n")
    if end < 0:
        raise OddAnswer("its samples have no head")
    head = parse_answer(bytes(plain[:end]).decode("ascii", "surrogateescape"), _HEAD)
    rest = plain[end + 1 :]
    sizes = [_WIDTH * each["rows"] * (1 + len(each["columns"])) for each in head["tables"]]
    if len(rest) != sum(sizes):
        raise OddAnswer("its samples are incomplete")
    lasted = max(head["lasted_us"] / 1e6, 1e-6)
    return NodeSamples(
        head["wall"][0],
        lasted,
        head["wall"][1] - head["wall"][0] - lasted,
        head["longest_us"] / 1e6,
        head["cpu_s"] / lasted,
        _table(head["tables"][0], rest[: sizes[0]], rails),
        _table(head["tables"][1], rest[sizes[0] :], rails),
    )


def _inflate(data: bytes) -> bytes:
    if len(data) > MOST_PACKED:
        raise OddAnswer(f"its samples exceed {MOST_PACKED >> 10} KiB")
    gzip = zlib.decompressobj(wbits=31)
    try:
        plain = gzip.decompress(data, MOST_INFLATED)
    except zlib.error as error:
        raise OddAnswer("its samples are no gzip file") from error
    if not gzip.eof or gzip.unused_data:
        raise OddAnswer(f"its samples are incomplete, or exceed {MOST_INFLATED >> 20} MiB")
    return plain


def _table(head: Mapping[str, Any], data: memoryview, rails: int) -> SampleTable:
    width = _WIDTH * head["rows"]
    times, *columns = (
        _numbers(data[width * place : width * (place + 1)])
        for place in range(1 + len(head["columns"]))
    )
    if head["rows"] and not (min(times) > 0 and sum(times) <= _DAY_US):
        raise OddAnswer("its samples have a time that does not follow the one before")
    names = [_key(name, rails) for name in head["columns"]]
    still = frozenset(_key(name, rails) for name in head["still"])
    if len({*names, *still}) < len(names) + len(head["still"]):
        raise OddAnswer("its samples have a column twice")
    at, ends = 0, []
    for step in times:
        at += step
        ends.append(at / 1e6)
    return SampleTable(head["every_s"], ends, dict(zip(names, columns, strict=True)), still)


def _numbers(data: memoryview) -> array[int]:
    found = array("Q")
    found.frombytes(data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def _key(name: str, rails: int) -> tuple[int, str]:
    rail, _, counter = name.partition("/")
    if int(rail) >= rails or not re.fullmatch(r"[ -~]+", counter):
        raise OddAnswer("its samples name a rail that was not asked for")
    return int(rail), counter
