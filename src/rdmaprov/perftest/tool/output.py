"""What perftest printed as its result: its table, or its JSON.

Its `MB/sec` is 2^20 bytes a second in every version (perftest_parameters.c, `format_factor`); since
24.x it says `MiB/sec`. With a duration (`-D`) it measures no peak and prints 0.00. Its JSON has
no unit, and up to 23.10 neither quotes nor right commas; since 24.01.0-0.38 it is JSON.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_GB_S = {"Gb/sec": 1e9 / 8 / 1e9, "MB/sec": (1 << 20) / 1e9, "MiB/sec": (1 << 20) / 1e9}
# A column: `#bytes`, `BW average[Gb/sec]`, `t_typical[usec]`, `tps average`.
_COLUMN = re.compile(r"#\w+|BW (?:peak|average|Port\d)\[\S+?\]|tps average|\S*\[\S+?\]")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,9})?")
_FIELD = re.compile(r'"?\b([A-Za-z_]\w*)"?\s*:\s*(\d{1,15}(?:\.\d{1,9})?)\s*[,\n}]')
# The MTU that both ends agreed on, the smaller one of their ports (check_mtu).
_MTU = re.compile(r'(?m)^[ \t]*"?Mtu"?[ \t]*: *(\d{3,5})\b')
_ROUNDED = 0.02  # of a message rate of few digits
_MOST_GB_S = 1000.0  # ten times the fastest port there is (800 Gb/s): anything above is no rate


@dataclass(frozen=True)
class Figures:
    """The result of one size."""

    size: int  # bytes of a message
    gb_s: float = 0.0  # mean bandwidth, GB/s; 0 in a test of latency
    # typical latency, µs, or the mean where it has none; 0 in a test of bandwidth
    usec: float = 0.0


def read_figures(text: str, size: int, unit: str = "Gb/sec") -> Figures | None:
    """Return the result of a size; None if there is none.

    Args:
        size: bytes of the messages that were asked for.
        unit: of a bandwidth in JSON, where perftest does not say it.
    """
    found = [*_from_table(text), *_from_json(text, unit)]
    return next((each for each in found if each.size == size and _is_possible(each)), None)


def read_all(text: str) -> list[Figures]:
    """Return the possible results of all sizes; the unit of a JSON follows from its rates."""
    found = [*_from_table(text)] or [*_from_json(text, _unit_of(text))]
    return [each for each in found if _is_possible(each)]


def read_mtu(text: str) -> int:
    """Return the RDMA MTU of the path, bytes; 0 if perftest does not say it."""
    found = _MTU.search(text)
    return int(found[1]) if found else 0


def _is_possible(figures: Figures) -> bool:
    return 0 < figures.gb_s <= _MOST_GB_S or figures.usec > 0


def _from_table(text: str) -> Iterator[Figures]:
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["#bytes"]:
            columns = _COLUMN.findall(line)
        elif columns and len(words) >= len(columns) and all(map(_NUMBER.fullmatch, words)):
            yield from _from_row(dict(zip(columns, words, strict=False)))


def _from_row(row: dict[str, str]) -> Iterator[Figures]:
    if not row["#bytes"].isdecimal():
        return
    size = int(row["#bytes"])
    for unit, factor in _GB_S.items():
        if average := row.get(f"BW average[{unit}]"):
            yield Figures(size, gb_s=float(average) * factor)
    if typical := row.get("t_typical[usec]") or row.get("t_avg[usec]"):
        yield Figures(size, usec=float(typical))


def _unit_of(text: str) -> str:
    """Return the unit of a JSON's bandwidth: messages of a second, times their size."""
    fields = {name: float(value) for name, value in _FIELD.findall(text.partition("results")[2])}
    rate = fields.get("MsgRate", 0) * 1e6 * fields.get("MsgSize", 0) / 1e9
    average = fields.get("BW_average", 0)
    near = [unit for unit, gb_s in _GB_S.items() if abs(average * gb_s - rate) < _ROUNDED * rate]
    return near[0] if near else ""


def _from_json(text: str, unit: str) -> Iterator[Figures]:
    _, found, results = text.partition("results")
    fields = dict(_FIELD.findall(results)) if found else {}
    if not fields.get("MsgSize", "").isdecimal():
        return
    size = int(fields["MsgSize"])
    if "BW_average" in fields and unit:
        yield Figures(size, gb_s=float(fields["BW_average"]) * _GB_S[unit])
    elif typical := fields.get("t_typical") or fields.get("t_avg"):
        yield Figures(size, usec=float(typical))
