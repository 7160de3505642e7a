"""What NCCL's RAS said of a job (`ncclras`, or port 28028), as text or as JSON (`-f json`).

RAS shows one moment of a job that runs: ranks that are ahead or behind are ordinary then. So it
accuses nobody of being behind, and a process that does not answer only where the others do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.ras import MOST_BYTES, LaggingRank, RasProcess, RasReport, parse_report
from rdmaprov.words import quantity, some

_SIZE = re.compile(r"^ +(\d{1,7}) +[\d-]{1,15} +[\d-]{1,15} +(\d{1,7}) +(\d{1,7})$", re.MULTILINE)
_GROUP = re.compile(
    r"^ *\d{1,7} +(\d{1,7}) +\d{1,7} +[\d-]{1,15} +(\d{1,7}) +\d{1,7} +([A-Z]+) +([A-Z,]+)\s*$",
    re.MULTILINE,
)
_ERRORS = re.compile(r"^Errors\r?\n=+", re.MULTILINE)
_END = re.compile(r"^Warnings\r?\n=+", re.MULTILINE)
# ncclErrorToString (src/ras/client_support.cc).
_REPORTED = re.compile(r"^ +(?:Rank (\d{1,7})|\d{1,7} ranks) reported ([\w ]{1,40}?)(?: --.*)?$")
_REMOTE, _RUNS = "Remote process error", "NCCL operation in progress"
_IN_PROGRESS = 7
_ERROR_WORDS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: _REMOTE,
}
_LAUNCHED = re.compile(
    r"^ +(\d{1,7}) ranks? ha(?:ve|s) launched up to operation (\d{1,19})$", re.MULTILINE
)
_NO_COMMA = re.compile(rb'("nvml_dev": \d{1,9})(\s{1,64}"status":)')
_ENDING = {"FINALIZE", "ABORT"}
_AGAIN = "ask again after a minute (ncclras -v): a rank that stays behind keeps the others waiting"
_NOT_ALL = "it did not hear from all in time"
_LOOK = "look at the process, its standard error and exit status, and dmesg -T on its host"


@dataclass(frozen=True)
class _Answer:
    """What RAS answered, in either form."""

    report: RasReport
    groups: Sequence[tuple[str, ...]]  # number of communicators, ranks of each, status, errors
    # by the error that ranks report, these ranks, empty if they are not named
    reported: Mapping[str, Sequence[str]]
    size: tuple[int, int] = (0, 0)  # nodes and GPUs, 0 if it does not say
    total: int = 0
    unread: tuple[tuple[str, str], ...] = ()  # what it does not tell, and what to do
    # how many ranks have launched up to which operation; empty if it does not say
    launched: str = ""


def read(given: GivenText) -> Shown:
    """Return what a report of RAS shows."""
    answer = _of_json(given) if given.data.lstrip()[:1] == b"{" else _of_text(given)
    findings = [*_silent(answer), *_reported(answer), *_unequal(answer)]
    findings += [unread(given.name, f"RAS: {what}", remedy) for what, remedy in answer.unread]
    is_right = bool(answer.groups) and all(each[2:] == ("RUNNING", "OK") for each in answer.groups)
    return Shown(
        "ras",
        (given.name,),
        tuple(_sentences(answer)),
        tuple(findings),
        "every process answers, and all ranks are at one operation" if is_right else "",
        ("why it stands there: the ranks' logs, and torch's flight recorder",) if findings else (),
        (answer.report,),
    )


def _of_text(given: GivenText) -> _Answer:
    text = given.text[:MOST_BYTES]
    groups = [found.groups() for found in _GROUP.finditer(text)]
    size = _SIZE.search(text)
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (found := _REPORTED.match(line)) and found[2] != _RUNS:
            said.setdefault(found[2], []).append(found[1] or "")
    lacks = []
    if not _END.search(text) or len(given.data) > MOST_BYTES:
        lacks.append(("cut off before its end, `Warnings`", "save all that ncclras prints"))
    if re.search(r"^ *TIMEOUT\s*$", text, re.MULTILINE):
        lacks.append((_NOT_ALL, _AGAIN))
    return _Answer(
        parse_report(text),
        groups,
        said,
        (int(size[1]), int(size[3])) if size else (0, 0),
        int(size[2]) if size else max((int(group[1]) for group in groups), default=0),
        tuple(lacks),
        some(
            [f"{quantity(int(n), 'rank')} up to {int(op):,}" for n, op in _LAUNCHED.findall(text)],
            4,
        ),
    )


def _of_json(given: GivenText) -> _Answer:
    """Return what the JSON says; NCCL 2.28.9 leaves out a comma in each missing rank."""
    document = given.document
    if not document:
        whole = _NO_COMMA.sub(rb"\1,\2", given.data)
        document = replace(given, data=whole).document
    if not document:
        nothing = (("its JSON is damaged or cut off", "save all that ncclras prints"),)
        return _Answer(RasReport((), ()), (), {}, unread=nothing)
    silent, processes = set[RasProcess](), set[RasProcess]()
    lagging: list[LaggingRank] = []
    groups: Counter[tuple[str, str, str]] = Counter()
    said: dict[str, dict[str, None]] = {}
    for each in _rows(document.get("communicators")):
        ranks, missing = _rows(each.get("ranks")), _rows(each.get("missing_ranks"))
        lost = {_process(rank) for rank in missing if any(_status(rank).values())}
        behind, failed = list(_behind(ranks)), list(_failed(ranks))
        for words, number in failed:
            said.setdefault(words, {})[number] = None
        of = len(ranks) + len(missing)
        is_short = bool(missing) or _number(each.get("size")) > of
        flags = {"INCOMPLETE": is_short, "MISMATCH": bool(behind), "ERROR": bool(failed)}
        errors = ",".join(word for word, is_so in flags.items() if is_so) or "OK"
        groups[str(of), _state(ranks), errors] += 1
        silent |= lost
        lagging += behind
        processes |= lost | {_process(rank) for rank in ranks}
    ras = document.get("ras")
    is_late = isinstance(ras, dict) and bool(ras.get("timeouts_count"))
    return _Answer(
        RasReport(tuple(sorted(silent)), tuple(sorted(lagging))),
        [(str(count), *group) for group, count in groups.items()],
        {words: list(ranks) for words, ranks in said.items()},
        (len({each.node for each in processes}), len({(p.node, p.gpu) for p in processes})),
        len({(each.node, each.pid) for each in processes}),
        ((_NOT_ALL, _AGAIN),) if is_late else (),
    )


def _rows(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _status(rank: Mapping[str, Any]) -> dict[str, int]:
    """Return the flags and results of a rank."""
    status = rank.get("status")
    given = status.items() if isinstance(status, dict) else ()
    return {str(key): value for key, value in given if isinstance(value, int)}


def _process(rank: Mapping[str, Any]) -> RasProcess:
    host = str(rank.get("host", ""))[:64]
    return RasProcess(host, _number(rank.get("pid")), _number(rank.get("cuda_dev")))


def _state(ranks: Sequence[Mapping[str, Any]]) -> str:
    """Return what the text form calls the furthest state of a communicator's ranks."""
    every = [_status(rank) for rank in ranks]
    if any(each.get("abort_flag") for each in every):
        return "ABORT"
    if any(each.get("finalize_called") or each.get("destroy_flag") for each in every):
        return "FINALIZE"
    is_running = all(each.get("init_state", _IN_PROGRESS) != _IN_PROGRESS for each in every)
    return "RUNNING" if every and is_running else "INIT"


def _failed(ranks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the errors of ranks, in the words of the text form, and their numbers."""
    for rank in ranks:
        status = _status(rank)
        for error in {status.get("init_state", 0), status.get("async_error", 0)}:
            if error and error != _IN_PROGRESS:
                words = _ERROR_WORDS.get(error, "Unexpected error")
                yield words, str(_number(rank.get("rank")))


def _behind(ranks: Sequence[Mapping[str, Any]]) -> Iterator[LaggingRank]:
    """Yield the ranks that launched fewer operations of a kind than another one."""
    launched: dict[str, list[tuple[int, RasProcess]]] = {}
    for rank in ranks:
        counts = rank.get("collective_counts")
        for name, count in counts.items() if isinstance(counts, dict) else ():
            launched.setdefault(str(name), []).append((_number(count), _process(rank)))
    for own in launched.values():
        most = max(count for count, _ in own)
        yield from (LaggingRank(process, count, most) for count, process in own if count < most)


def _sentences(answer: _Answer) -> Iterator[str]:
    nodes, gpus = answer.size
    if nodes:
        yield f"{quantity(nodes, 'node')}, {quantity(gpus, 'GPU')}"
    for count, ranks, status, errors in answer.groups[:20]:
        of = quantity(int(ranks), "rank")
        yield f"{quantity(int(count), 'communicator')} of {of}: {status}, {errors}"


def _silent(answer: _Answer) -> Iterator[Finding]:
    """Yield the processes that do not answer; of many, or at a job's end, they are no fault yet."""
    silent, total, groups = answer.report.unresponsive, answer.total, answer.groups
    if not silent:
        if any("INCOMPLETE" in errors for *_, errors in groups):
            what = "RAS: ranks are missing, and their processes are not named"
            yield Finding("rank.hangs", what, "ask for them: ncclras -v", proven=False)
        return
    names = some([f"process {p.pid} (GPU {p.gpu}) on {p.node}" for p in silent], 4)
    ending = any(status in _ENDING for _, _, status, _ in groups)
    # What most show is what victims show; and one that lost another may have ended since.
    hosts = {each.node for each in silent}
    is_one = len(silent) == 1 or (len(hosts) == 1 and 2 * len(silent) < total)
    is_one = is_one and not ending and total != 1
    verb = "does" if len(silent) == 1 else "do"
    which = "" if len(hosts) == 1 and is_one else "; which one went first is unknown"
    why = "ended by itself or from outside, stopped, or the host is gone"
    yield Finding(
        "rank.hangs",
        f"{names} {verb} not answer NCCL's RAS: {why}{which}",
        _LOOK,
        nodes=tuple(hosts) if is_one else (),
        proven=is_one,
    )


def _reported(answer: _Answer) -> Iterator[Finding]:
    """Yield the errors that ranks report; a remote error is a victim's."""
    for words, ranks in answer.reported.items():
        who = f"rank {', '.join(filter(None, ranks[:4]))}" if any(ranks) else "ranks"
        victim = "; it lost another one, and is not at fault" if words == _REMOTE else ""
        what = f"{who}: '{words}', as NCCL's RAS says{victim}"
        yield Finding("nccl.failed", what, "read the ranks' logs: pass them to rdmaprov explain")


def _unequal(answer: _Answer) -> Iterator[Finding]:
    report = answer.report
    if report.lagging or any("MISMATCH" in errors for *_, errors in answer.groups):
        behind = f": {answer.launched}" if answer.launched else ""
        if report.lagging:
            most = max(each.most for each in report.lagging)
            least = min(each.launched for each in report.lagging)
            named = quantity(len(report.lagging), "named rank")
            behind = f": from {least:,} to {most:,}, {named} behind"
        what = f"ranks have launched different numbers of operations{behind}"
        yield Finding(
            "rank.hangs", f"{what}; while a job runs, that is ordinary", _AGAIN, proven=False
        )
