"""Torch's flight recorder: the last operations of each rank, as a pickle or as JSON.

The fields are those of versions 2.0 to 2.10 (pytorch: torch/csrc/distributed/c10d/FlightRecorder*,
torch/distributed/flight_recorder). A dump does not name its rank: its file does, by its last
number. A dump shows one moment, and not when it was written. So a rank that is behind is at fault
only if another one's operation is known to be overdue, and if it waits in no operation itself.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import PurePath
from typing import Any

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.explain.safe_pickle import UnsafePickleError, check_size, load_plain
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.matrix import format_numbers
from rdmaprov.words import some

Group = tuple[str, tuple[int, ...]]  # its name, and its ranks in the job
_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pickle|pkl|pt|bin|txt))?$")
_NUMBERS = re.compile(r"\d{1,7}")
_MOST_ENTRIES = 100_000
_MOST_RANKS = 1 << 17
# Of these, all ranks pass as many values (pytorch: flight_recorder/components/types.py, match).
_EQUAL = {"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"}
_ALL = "pass the dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1)"
_BOTH_ENDS = "find what the other end did instead: its dump, its log, py-spy dump --pid PID"
_WATCHDOG = "whether it is overdue: pass the ranks' logs too, which have torch's watchdog"


@dataclass(frozen=True)
class Operation:
    """A collective that a rank called."""

    group: Group
    number: int
    name: str  # what it is, such as all_reduce
    values: int  # how many values of the type the rank passes, -1 if unknown
    type: str
    is_open: bool
    created_ns: int  # when it was called, 0 if unknown
    limit_ns: int  # after which time the watchdog ends the job, 0 if unknown
    place: str  # the line of the program that called it, empty if unknown

    @property
    def text(self) -> str:
        """Return what it is, with its values."""
        of = f" of {self.values:,} {self.type}".rstrip() if self.values >= 0 else ""
        return f"{self.name}{of}"


@dataclass(frozen=True)
class FlightDump:
    """The last operations of a rank."""

    file: str
    rank: int | None  # its number in the job; None if its file does not say it
    groups: Mapping[Group, str]  # the groups that it is in, with what each is called
    # in the order in which they were called; without sends and receives
    operations: tuple[Operation, ...]
    last: Mapping[Group, int]  # the last number that it called, by group
    newest_ns: int
    # sends and receives that have not ended, with where they were called
    transfers: tuple[str, ...] = ()
    strays: int = 0  # how many operations are of groups whose ranks are unknown

    def open_in(self, group: Group) -> Operation | None:
        """Return the first operation of a group that has not ended."""
        return next((o for o in self.operations if o.group == group and o.is_open), None)


def is_dump(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON is a dump."""
    return "pg_config" in document and "entries" in document


def read(every: Sequence[GivenText]) -> list[Shown]:
    """Return what the dumps of a job show; each one that is unreadable is apart."""
    dumps, bad = list[FlightDump](), list[Shown]()
    for given in every:
        try:
            dumps.append(_dump(given.name, _document(given)))
        except UnsafePickleError as error:
            text = f"flight recorder: not read: {error}"
            finding = unread(given.name, text, "copy the dump again, whole")
            bad.append(Shown("flight-recorder", (given.name,), findings=(finding,)))
    return [*([judge(_ranked(dumps))] if dumps else []), *bad]


def _document(given: GivenText) -> Mapping[str, Any]:
    document: object = given.document
    if document:
        check_size(document)
    else:
        document = load_plain(given.data)
    if not isinstance(document, dict) or not is_dump(document):
        raise UnsafePickleError("it has no entries and pg_config")
    return document


def judge(dumps: Sequence[FlightDump], *, is_overdue: bool = False) -> Shown:
    """Return what dumps show.

    Args:
        is_overdue: whether somebody else knows that an operation took too long.
    """
    known = {dump.rank: dump for dump in dumps if dump.rank is not None}
    groups = {group: name for dump in dumps for group, name in dump.groups.items()}
    findings = [found for group in groups for found in _unequal(group, known)]
    waiting = [
        found
        for group, name in groups.items()
        if not findings
        for found in _waiting(group, name, known, is_overdue)
    ]
    missing = sorted({rank for _, ranks in groups for rank in ranks} - known.keys())
    for dump in dumps:
        if dump.strays:
            text = f"flight recorder: {dump.strays} operations are of groups that it does not list"
            findings.append(unread(dump.file, text, "pass the ranks' logs too"))
    unnamed = [dump.file for dump in dumps if dump.rank is None]
    for file in unnamed:
        text = "flight recorder: the name of its file does not end with its rank"
        findings.append(unread(file, text, "keep the name that torch gave it"))
    for rank, dump in sorted(known.items()):
        if dump.transfers and not findings:
            of = some(list(dict.fromkeys(dump.transfers)), 3)
            what = f"rank {rank}: {of} has not ended; sends and receives are not compared"
            waiting.append(Finding("nccl.failed", what, _BOTH_ENDS, proven=False))
    is_asked = not findings and not waiting
    if missing and is_asked and not unnamed:
        what = f"flight recorder: no dump of {format_numbers(missing)}"
        findings.append(unread("", what, _ALL))
    if not groups:
        findings.append(unread("", "flight recorder: no group of ranks is in it", _ALL))
    return Shown(
        "flight-recorder",
        tuple(dump.file for dump in dumps),
        tuple(_sentences(groups, known)),
        (*findings, *waiting),
        "" if findings or waiting else "all ranks called the same operations, and all ended",
        (_WATCHDOG,) if any(not each.proven for each in waiting) and not is_overdue else (),
        tuple(dumps),
    )


def _sentences(groups: Mapping[Group, str], known: Mapping[int, FlightDump]) -> Iterator[str]:
    for group, name in groups.items():
        by_last: dict[str, list[int]] = defaultdict(list)
        for rank in group[1]:
            if dump := known.get(rank):
                said = f"ended operation {dump.last.get(group, 0)}, the last one called"
                if state := dump.open_in(group):
                    at = f" at {state.place}" if state.place else ""
                    said = f"in operation {state.number} ({state.text}){at}"
                by_last[said].append(rank)
        for text, ranks in by_last.items():
            yield f"{name}: {format_numbers(ranks)} {text}"


def _unequal(group: Group, known: Mapping[int, FlightDump]) -> Iterator[Finding]:
    """Yield the first operation of a group that is not the same for all ranks."""
    by_number: dict[int, dict[int, list[Operation]]] = defaultdict(lambda: defaultdict(list))
    for rank in group[1]:
        if rank in known:
            for each in known[rank].operations:
                if each.group == group:
                    by_number[each.number][rank].append(each)
    for number, calls in sorted(by_number.items()):
        if any(len(own) > 1 for own in calls.values()):  # several that were joined into one
            continue
        by_text: dict[str, list[int]] = defaultdict(list)
        for rank, (own,) in sorted(calls.items()):
            by_text[own.text if own.name in _EQUAL else own.name].append(rank)
        if len(by_text) > 1:
            listed = "; ".join(
                f"{text} on {format_numbers(ranks)}" for text, ranks in list(by_text.items())[:4]
            )
            what = f"ranks called different operations: number {number} of {group[0]} is {listed}"
            fix = (
                "find where the program's ways part: a condition that differs by rank, unequal data"
            )
            yield Finding("nccl.failed", what, fix)
            return


def _waiting(
    group: Group, name: str, known: Mapping[int, FlightDump], is_overdue: bool
) -> Iterator[Finding]:
    """Yield who waits in a group, and for whom."""
    here = {rank: known[rank] for rank in group[1] if rank in known}
    opened = {rank: found for rank, dump in here.items() if (found := dump.open_in(group))}
    if not opened:
        return
    due = max(opened.values(), key=lambda each: each.number)
    waiters = sorted(rank for rank, own in opened.items() if own.number == due.number)
    newest = max(dump.newest_ns for dump in known.values())
    is_overdue |= any(
        own.limit_ns and own.created_ns and newest - own.created_ns >= own.limit_ns
        for own in opened.values()
    )
    late = [rank for rank, dump in here.items() if dump.last.get(group, 0) < due.number]
    missing = [rank for rank in group[1] if rank not in known]
    at = f"operation {due.number} ({due.text}) of {name}"
    if not late:
        no_dump = f"; no dump of {format_numbers(missing)}" if missing else ""
        what = f"{format_numbers(waiters)} in {at}, and no dump is of a rank behind{no_dump}"
        fix = _ALL if missing else "the network or a GPU: pass the ranks' NCCL logs, ncclras -v"
        yield Finding("nccl.failed", what, fix, proven=False)
        return
    # A rank that waits elsewhere is held up itself.
    held = [r for r in late if any(each.is_open for each in here[r].operations)]
    free = [rank for rank in late if rank not in held]
    who = format_numbers(sorted(free or late))
    what = f"{who} did not join {at}, in which {format_numbers(waiters)} waited"
    if held and not free:
        what += f"; {format_numbers(sorted(held))} waited in another operation"
    if missing:
        what += f"; no dump of {format_numbers(missing)}"
    yield Finding(
        "rank.hangs",
        what,
        f"find what {who} did instead: its log, py-spy dump --pid PID, dmesg -T on its host",
        proven=is_overdue and bool(free) and not missing,
        part=who if free else "",
    )


def _ranked(dumps: Sequence[FlightDump]) -> list[FlightDump]:
    """Return the dumps; a number that two files have, or no group, is no rank."""
    counts = Counter(dump.rank for dump in dumps)
    members = {rank for dump in dumps for _, ranks in dump.groups for rank in ranks}
    return [
        dump if counts[dump.rank] == 1 and dump.rank in members else replace(dump, rank=None)
        for dump in dumps
    ]


def _dump(name: str, document: Mapping[str, Any]) -> FlightDump:
    number = _RANK.search(PurePath(name).name)
    config, entries = document["pg_config"], document["entries"]
    if not isinstance(config, dict) or not isinstance(entries, list | tuple):
        raise UnsafePickleError("its entries or pg_config are of another form")
    if len(entries) > _MOST_ENTRIES:
        raise UnsafePickleError(f"it has more than {_MOST_ENTRIES:,} entries")
    plain = [each for each in entries if isinstance(each, dict)]
    by_name = dict(_groups(_named(config, plain)))
    operations = tuple(found for each in plain if (found := _operation(each, by_name)))
    last: dict[Group, int] = {}
    for each in operations:
        last[each.group] = max(last.get(each.group, 0), each.number)
    # The state of a group stands under a number of its own, which entries have too.
    ids = {str(each.get("pg_id")): _owner(each) for each in plain}
    status = document.get("pg_status")
    for key, own in status.items() if isinstance(status, dict) else ():
        known = by_name.get(ids.get(str(key), ""))
        enqueued = _number(own.get("last_enqueued_collective")) if isinstance(own, dict) else 0
        if known and enqueued > 0:
            last[known[0]] = max(last.get(known[0], 0), enqueued)
    transfers = [each for each in plain if each.get("is_p2p") and not _has_ended(each)]
    times = [_number(each.get(key)) for each in plain for key in _TIMES]
    return FlightDump(
        name,
        int(number[1]) if number else None,
        dict(by_name.values()),
        operations,
        last,
        max(times, default=0),
        tuple(map(_transfer, transfers)),
        sum(_owner(each) not in by_name for each in plain),
    )


def _transfer(entry: Mapping[str, Any]) -> str:
    name = str(entry.get("profiling_name")).rpartition(":")[2][:64]
    place = _place(entry.get("frames"))
    return f"{name} at {place}" if place else name


def _has_ended(entry: Mapping[str, Any]) -> bool:
    is_marked = entry.get("state") == "completed" or entry.get("retired") is True
    return is_marked or bool(_number(entry.get("time_discovered_completed_ns")))


_TIMES = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def _named(
    config: Mapping[object, object], entries: Sequence[Mapping[str, Any]]
) -> Mapping[object, object]:
    """Return the groups; gloo's only one has no name there (torch 2.13), and its operations do."""
    own = config.get("")
    owners = {tuple(map(str, each["process_group"][:2])) for each in entries if _owner(each)}
    if len(config) > 1 or not isinstance(own, dict) or len(owners) != 1:
        return config
    name, *desc = owners.pop()
    return {name: {**own, "name": name, "desc": "".join(desc)}}


def _groups(config: Mapping[object, object]) -> Iterator[tuple[str, tuple[Group, str]]]:
    for key, own in config.items():
        if not isinstance(own, dict):
            continue
        name, ranks = str(own.get("name", key))[:64], own.get("ranks")
        words = ranks if isinstance(ranks, str) else str(ranks) if _is_list(ranks) else ""
        numbers = tuple(sorted({int(each) for each in _NUMBERS.findall(words)}))
        if len(numbers) <= _MOST_RANKS:
            called = str(own.get("desc") or name)[:64]
            yield name, ((name, numbers), called if called != "undefined" else f"group {name}")


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(type(each) is int for each in value)


def _operation(
    entry: Mapping[str, Any], groups: Mapping[str, tuple[Group, str]]
) -> Operation | None:
    owner, name, types = _owner(entry), entry.get("profiling_name"), entry.get("input_dtypes")
    if entry.get("is_p2p") or owner not in groups or not isinstance(name, str):
        return None
    return Operation(
        groups[owner][0],
        _number(entry.get("collective_seq_id", entry.get("seq_id"))),
        name.partition(":")[2][:64] or name[:64],
        _values(entry.get("input_sizes")),
        _types(types),
        not _has_ended(entry),
        _number(entry.get("time_created_ns")),
        _number(entry.get("timeout_ms")) * 1_000_000,
        _place(entry.get("frames")),
    )


def _owner(entry: Mapping[str, Any]) -> str:
    """Return the name of an entry's group, empty if it has none."""
    owner = entry.get("process_group")
    return str(owner[0])[:64] if isinstance(owner, list | tuple) and owner else ""


def _types(types: object) -> str:
    if not isinstance(types, list | tuple):
        return ""
    return ", ".join(sorted({each[:24] for each in types[:64] if isinstance(each, str)}))


def _number(value: object) -> int:
    """Return a number that may stand as text, 0 for anything else."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if type(value) is int and abs(value) < 1 << 63 else 0


def _values(sizes: object) -> int:
    """Return how many values tensors of these sizes have, -1 if unknown."""
    if not isinstance(sizes, list | tuple) or not all(_is_list(each) for each in sizes):
        return -1
    if any(len(each) > 16 or any(not 0 <= n < 1 << 48 for n in each) for each in sizes):
        return -1
    return sum(prod(each) for each in sizes)


def _place(frames: object) -> str:
    """Return where the program called it: the first frame that is none of torch's own."""
    for frame in frames[:64] if isinstance(frames, list | tuple) else ():
        file = frame.get("filename") if isinstance(frame, dict) else None
        if isinstance(file, str) and "/torch/" not in file and file.endswith(".py"):
            return f"{PurePath(file).name[-64:]}:{_number(frame.get('line'))}"
    return ""
