"""Tables of nccl-tests and rccl-tests: the collective, its sizes, wrong values, bus bandwidths.

The forms are those of its source, src/common.cu and src/util.cu, at the tags v2.0.0 to v2.19.6
(github.com/NVIDIA/nccl-tests). Its JSON has the job's whole environment, of which nothing is kept.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.bandwidth.rates import format_gb_s, format_size
from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.words import quantity, some

_PREFIX = re.compile(r"^(?:\[\d+,\d+\]<std\w+>: ?|\d{1,6}: ?(?=#| )|.{0,80}?\[rank\d+\]:? ?)")
_VERSION = re.compile(r"# (?:nccl|rccl)-tests:? +[vV]ersion")
_SIZES = re.compile(r"# nThreads?:? +\d+ +nGpus:? +\d+ +min[bB]ytes")
_NAME = re.compile(r"# Collective test (?:starting|concluded): (\w{1,64})")
_PROGRAM = re.compile(r"(?:^|[\s/])(\w{1,48}_perf)\b")
_RANK = re.compile(
    r"# +Rank +(\d{1,7}) (?:Group +\d+ )?Pid +\d+ on +(\S{1,64}) device +\d+ \[[^\]]{0,64}\] ?(.*)"
)
_HEAD = re.compile(r"# +size +count .*\bbusbw\b")
_ROW = re.compile(r"^ *(\d{1,19}) +\d{1,19} +[a-z]\w* ")
_NUMBER = re.compile(r"\d{1,19}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?")
_BOUNDS = re.compile(r"# Out of bounds values *: (\d{1,10}) (OK|FAILED)")
_AVERAGE = re.compile(r"# Avg bus bandwidth *: (\S{1,24}) *(OK|FAILED)?")
_ENDED = re.compile(r"Test (?:\w{1,12} )?failure .*|Invalid number of GPUs: .*")
_SIDES = ("out of place", "in place")
_COLUMNS = ("time", "algbw", "busbw", "#wrong")
_MOST_ROWS = 10_000
_JUDGED_BYTES = 1 << 30  # the floor is of 1 GiB or more
_AGAIN = "run it again; keep standard output and standard error"


@dataclass(frozen=True)
class PerfColumn:
    """The result of one size, in place or out of place."""

    bus_gb_s: float  # the bus bandwidth, GB/s
    wrong: int | None  # the number of wrong values; None if they were not checked


@dataclass(frozen=True)
class PerfRow:
    """A row: the size in bytes, and the results that are there, by `_SIDES`."""

    size: int
    sides: Mapping[str, PerfColumn]

    @property
    def columns(self) -> tuple[PerfColumn, ...]:
        """Return the results that are there."""
        return tuple(self.sides.values())


@dataclass
class PerfTable:
    """What one test printed."""

    collective: str = ""  # the program's name without `_perf`, such as all_reduce; empty if unsaid
    began: bool = False  # a line of its beginning was read
    ranks: dict[int, tuple[str, str]] = field(default_factory=dict)
    rows: list[PerfRow] = field(default_factory=list)
    odd: int = 0  # lines of results in a form that is not known
    bounds: int | None = None  # values out of bounds, as its end says; None without an end
    too_slow: bool = False  # the average is below what NCCL_TESTS_MIN_BW asked for
    average: str = ""  # the average bus bandwidth, as it stands there
    ended: str = ""  # why the test gave up, in its own words

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of its ranks."""
        return tuple(dict.fromkeys(host for host, _ in self.ranks.values()))

    @property
    def best(self) -> tuple[int, float]:
        """Return the largest size, and the higher of its bus bandwidths; zeros without a row."""
        if not self.rows:
            return 0, 0.0
        row = max(self.rows, key=lambda each: each.size)
        return row.size, max((each.bus_gb_s for each in row.columns), default=0.0)


def read(given: GivenText) -> Shown:
    """Return what a file of tables shows."""
    tables = list(_of_document(given.document) if given.document else _tables(given))
    alone = sum(set(each.ranks) == {0} and each.bounds is None for each in tables)
    if alone > 1:
        what = f"{quantity(alone, 'table')} of one rank each, which begin before the first one ends"
        fix = "each process ran alone: build nccl-tests with MPI=1, and start it by mpirun"
        return Shown("nccl-tests", (given.name,), findings=(unread(given.name, what, fix),))
    findings = [finding for each in tables for finding in _findings(each, given.name)]
    if not tables:
        findings = [unread(given.name, "no table of nccl-tests in it is readable", _AGAIN)]
    checked = all(_is_right(each) for each in tables)
    return Shown(
        "nccl-tests",
        (given.name,),
        tuple(_sentence(each) for each in tables),
        tuple(findings),
        "all values are right" if tables and checked else "",
        tuple(dict.fromkeys(line for each in tables for line in _lacks(each))),
        tuple(tables),
    )


def _tables(given: GivenText) -> Iterator[PerfTable]:
    table, head, program = PerfTable(), list[str](), ""
    for raw in given.lines():
        line = _PREFIX.sub("", raw.lstrip(), count=1).lstrip()
        if (table.began or table.rows) and (_VERSION.match(line) or _SIZES.match(line)):
            yield table
            table, head = PerfTable(), []
        if _SIZES.match(line):
            table.began, table.collective = True, table.collective or program
        elif found := _NAME.match(line):
            table.collective = found[1].removesuffix("_perf")
        elif found := _RANK.match(line):
            table.ranks[int(found[1])] = (found[2], found[3].strip())
        elif _HEAD.match(line):
            head = line.lstrip("# ").split()
        elif head and (found := _ROW.match(line)):
            _add_row(table, int(found[1]), head, line.split())
        elif found := _BOUNDS.match(line):
            table.bounds = int(found[1])
        elif found := _AVERAGE.match(line):
            table.average, table.too_slow = found[1], found[2] == "FAILED"
        elif (found := _ENDED.search(line)) and (table.began or not table.ended):
            table.ended = table.ended or found[0]
        elif found := _PROGRAM.search(line):
            program = found[1].removesuffix("_perf")
    if table.began or table.rows or table.ended or table.bounds is not None or table.ranks:
        yield table


def _add_row(table: PerfTable, size: int, head: list[str], words: list[str]) -> None:
    """Add a row; a time at its end is two words, and old versions leave out `redop` and `root`."""
    if head[-1] == "timestamp":
        head, words = head[:-1], words[:-2]
    named: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    for name, word in zip(reversed(head), reversed(words), strict=False):
        plain = {"cputime": "time", "error": "", "#wrong": "#wrong"}.get(name, name)
        if plain in named:
            named[plain].insert(0, word)
    both = [_column(named, number) for number in range(len(named["busbw"]))]
    if None in both or not both or len(table.rows) >= _MOST_ROWS:
        table.odd += 1
        return
    table.rows.append(_row(size, both))


def _row(size: int, both: Sequence[PerfColumn | None]) -> PerfRow:
    sides = zip(_SIDES, both, strict=False)
    return PerfRow(size, {side: each for side, each in sides if each is not None})


def _column(named: Mapping[str, list[str]], number: int) -> PerfColumn | None:
    bus = named["busbw"][number]
    # Before 2.12 the column is the largest deviation, and only the end says what was wrong.
    wrong = named["#wrong"][number] if number < len(named["#wrong"]) else "0"
    if not _NUMBER.fullmatch(bus) or not (wrong == "N/A" or _NUMBER.fullmatch(wrong)):
        return None
    return PerfColumn(float(bus), None if wrong == "N/A" else int(float(wrong)))


def _of_document(found: Mapping[str, object]) -> Iterator[PerfTable]:
    """Yield the table of the JSON that `-J` writes; its arguments and environment are not read."""
    table = PerfTable(began=True)
    arguments, config, results = (found.get(name) for name in ("args", "config", "results"))
    if isinstance(arguments, list) and arguments and isinstance(arguments[0], str):
        program = _PROGRAM.search(arguments[0])
        table.collective = program[1].removesuffix("_perf") if program else ""
    devices = config.get("devices") if isinstance(config, dict) else None
    for each in devices if isinstance(devices, list) else ():
        if isinstance(each, dict) and type(each.get("rank")) is int:
            name = str(each.get("hostname", "?"))[:64]
            table.ranks[each["rank"]] = (name, str(each.get("device_info", ""))[:64])
    for row in results if isinstance(results, list) else ():
        sides = [row.get(side) for side in ("out_of_place", "in_place")] if _is_row(row) else []
        columns = [_side(side) for side in sides]
        if columns and any(columns) and len(table.rows) < _MOST_ROWS:
            table.rows.append(_row(row["size"], columns))
        else:
            table.odd += 1
    bounds, average = found.get("out_of_bounds"), found.get("average_bus_bandwidth")
    if isinstance(bounds, dict) and type(bounds.get("count")) is int:
        table.bounds = bounds["count"]
    if isinstance(average, dict):
        table.average = str(average.get("bandwidth"))[:24]
        table.too_slow = average.get("okay") == "false"
    yield table


def _is_row(row: object) -> bool:
    return isinstance(row, dict) and type(row.get("size")) is int and 0 <= row["size"] < 1 << 62


def _side(side: object) -> PerfColumn | None:
    if not isinstance(side, dict):
        return None
    bus, wrong = side.get("bus_bw"), side.get("nwrong")
    if type(bus) is not float or not 0 <= bus < 1e9 or not isinstance(wrong, float | None):
        return None
    if wrong is not None and not 0 <= wrong < 1e18:
        return None
    return PerfColumn(bus, None if wrong is None else int(wrong))


def _is_right(table: PerfTable) -> bool:
    """Return whether data went between ranks, and each size was checked and is right."""
    every = [each.wrong for row in table.rows for each in row.columns]
    checked = all(any(each.wrong is not None for each in row.columns) for row in table.rows)
    return bool(every) and checked and not any(every) and table.bounds == 0 and len(table.ranks) > 1


def _findings(table: PerfTable, name: str) -> Iterator[Finding]:
    what = table.collective or "the test"
    bad = [row for row in table.rows if any(each.wrong for each in row.columns)]
    if bad or table.bounds:
        most = max((each.wrong or 0 for row in bad for each in row.columns), default=0)
        sides = {side for row in bad for side, each in row.sides.items() if each.wrong}
        seen = f"up to {most:,} wrong values, {' and '.join(sorted(sides))}" if bad else ""
        at = f"at {some([format_size(row.size) for row in bad], 3)}" if bad else ""
        end = f"out of bounds values: {table.bounds:,} FAILED" if table.bounds else ""
        text = "; ".join(filter(None, (f"{seen} {at}".strip(), end)))
        yield Finding(
            "sums.wrong",
            f"{what}: {text}",
            "halve the hosts until the one that damages data is found, as rdmaprov accept does;"
            " NCCL_P2P_DISABLE=1 and NCCL_NET_GDR_LEVEL=LOC show which way",
            nodes=table.hosts if len(table.hosts) == 1 else (),
        )
    if table.too_slow:
        text = f"{what}: the average bus bandwidth, {table.average} GB/s, is marked FAILED"
        yield Finding(
            "bandwidth.floor",
            text,
            "see NCCL_TESTS_MIN_BW, and what the fabric must reach: rdmaprov explain floor --help",
        )
    if table.ended:
        fix = "read NCCL's words before it; set NCCL_DEBUG=INFO"
        if table.ended.startswith("Invalid"):
            fix = "start it with as many processes and -g as there are GPUs"
        yield Finding("nccl.failed", f"{what} gave up: '{table.ended[:200]}'", fix)
    elif table.bounds is None:
        yield unread(name, f"{what}: cut off before its end, `Out of bounds values`", _AGAIN)
    if table.odd:
        yield unread(name, f"{what}: {quantity(table.odd, 'row')} in an unknown form", _AGAIN)
    if table.ended or bad or table.bounds:
        return
    if len(table.ranks) == 1:
        fix = "run it with -g 2 or more, or by mpirun; one built without MPI=1 ignores mpirun"
        yield unread(name, f"{what}: one rank, so nothing went between GPUs", fix)
    elif not table.ranks:
        yield unread(name, f"{what}: its ranks are not in it", _AGAIN)
    if table.rows and any(all(c.wrong is None for c in row.columns) for row in table.rows):
        yield unread(name, f"{what}: values were not checked", "run it without -c 0")
    if table.bounds == 0 and not table.rows:
        yield unread(name, f"{what}: no row in it is readable", _AGAIN)


def _sentence(table: PerfTable) -> str:
    parts = [table.collective or "collective unknown"]
    if table.ranks:
        parts.append(f"{quantity(len(table.ranks), 'rank')} on {some(table.hosts, 3)}")
    if table.rows:
        sizes = sorted({row.size for row in table.rows})
        span = " to ".join(dict.fromkeys((format_size(sizes[0]), format_size(sizes[-1]))))
        row = max(table.rows, key=lambda each: each.size)
        rates = ", ".join(f"{format_gb_s(c.bus_gb_s)} {side}" for side, c in row.sides.items())
        parts.append(f"{span}, busbw at the largest: {rates}")
    if table.average:
        parts.append(f"average {table.average} GB/s")
    return printable("; ".join(parts))


def _lacks(table: PerfTable) -> Iterator[str]:
    size, best = table.best
    if not best or len(table.ranks) < 2 or table.bounds or table.ended:
        return
    if table.collective != "all_reduce":
        yield "whether that is slow: a floor is known of all_reduce_perf -b 1G -e 8G -f 2"
    elif size < _JUDGED_BYTES:
        yield "whether that is slow, which small messages do not show: all_reduce_perf -b 1G -e 8G"
    else:
        yield f"whether that is slow: {floor_command(table, 'N', 'N')}"


def floor_command(table: PerfTable, rails: str, link_gbps: str) -> str:
    """Return the command that judges a table of all_reduce_perf."""
    nodes = len(table.hosts)
    gpus = -(-len(table.ranks) // nodes)
    size, best = table.best
    names = {gpu for _, gpu in table.ranks.values()}
    words = ["rdmaprov", "explain", "floor", "--nodes", str(nodes), "--gpus-per-node", str(gpus)]
    words += ["--rails", rails, "--link-gbps", link_gbps, "--measured", f"{best:g}"]
    words += ["--size", str(size)] if not size % 8 else []
    if len(names) == 1 and (name := names.pop()):
        words += ["--gpu", printable(name)]
    return shlex.join(words)
