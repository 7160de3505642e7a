"""What NCCL's RAS said of a job (`ncclras`, or port 28028), as text.

RAS shows one moment of a job that runs: ranks that are ahead or behind are ordinary then. So it
accuses nobody of being behind, and a process that does not answer only where the others do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdmaprov.explain.model import GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.nccl_log.ras import MOST_BYTES, RasReport, parse_report
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
_ENDING = {"FINALIZE", "ABORT"}
_AGAIN = "ask again after a minute (ncclras -v): who stays behind then keeps the others waiting"
_LOOK = "look at the process, its standard error and exit status, and dmesg -T on its host"


def read(given: GivenText) -> Shown:
    """Return what a report of RAS shows."""
    text = given.text[:MOST_BYTES]
    report = parse_report(text)
    groups = [found.groups() for found in _GROUP.finditer(text)]
    size = _SIZE.search(text)
    total = int(size[2]) if size else max((int(group[1]) for group in groups), default=0)
    findings = [*_silent(report, total, groups), *_reported(text), *_unequal(report, groups)]
    has_end = bool(_END.search(text)) and len(given.data) <= MOST_BYTES
    if not has_end:
        what = "RAS: cut off before its end, `Warnings`"
        findings.append(unread(given.name, what, "save all that ncclras prints"))
    if re.search(r"^ *TIMEOUT\s*$", text, re.MULTILINE):
        findings.append(unread(given.name, "RAS: it did not hear from all in time", _AGAIN))
    is_right = bool(groups) and all(each[2:] == ("RUNNING", "OK") for each in groups)
    return Shown(
        "ras",
        (given.name,),
        tuple(_sentences(groups, size)),
        tuple(findings),
        "every process answers, and all ranks are at one operation" if is_right else "",
        ("why it stands there: the ranks' logs, and torch's flight recorder",) if findings else (),
        (report,),
    )


def _sentences(groups: list[tuple[str, ...]], size: re.Match[str] | None) -> Iterator[str]:
    if size:
        yield f"{quantity(int(size[1]), 'node')}, {quantity(int(size[2]), 'GPU')}"
    for count, ranks, status, errors in groups[:20]:
        of = quantity(int(ranks), "rank")
        yield f"{quantity(int(count), 'communicator')} of {of}: {status}, {errors}"


def _silent(report: RasReport, total: int, groups: list[tuple[str, ...]]) -> Iterator[Finding]:
    """Yield the processes that do not answer; of many, or at a job's end, they are no fault yet."""
    silent = report.unresponsive
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


def _reported(text: str) -> Iterator[Finding]:
    """Yield the errors that ranks report; a remote error is a victim's."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        if (found := _REPORTED.match(line)) and found[2] != _RUNS:
            said.setdefault(found[2], []).append(found[1] or "")
    for words, ranks in said.items():
        who = f"rank {', '.join(filter(None, ranks[:4]))}" if any(ranks) else "ranks"
        victim = "; it lost another one, and is not at fault" if words == _REMOTE else ""
        what = f"{who}: '{words}', as NCCL's RAS says{victim}"
        yield Finding("nccl.failed", what, "read the ranks' logs: pass them to rdmaprov explain")


def _unequal(report: RasReport, groups: list[tuple[str, ...]]) -> Iterator[Finding]:
    if report.lagging or any("MISMATCH" in errors for *_, errors in groups):
        behind = ""
        if report.lagging:
            most = max(each.most for each in report.lagging)
            least = min(each.launched for each in report.lagging)
            named = quantity(len(report.lagging), "named rank")
            behind = f": from {least:,} to {most:,}, {named} behind"
        what = f"ranks have launched different numbers of operations{behind}"
        yield Finding(
            "rank.hangs", f"{what}; while a job runs, that is ordinary", _AGAIN, proven=False
        )
