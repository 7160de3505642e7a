"""What NCCL's RAS says of a job: which ranks do not answer, and which lag behind.

RAS is in NCCL since 2.24 and answers on TCP port 28028 of each node ("RAS" in NCCL's user guide,
src/ras/client_support.cc). This reads its text, which every version has. Ranks are those of a
communicator, not of a job, so each comes with its process, node and GPU.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMUNICATOR = re.compile(r"#\d{1,9}-\d{1,9} \(([0-9a-f]{16})\) (INCOMPLETE|MISMATCH|ERROR)\s*$")
_PROCESS = re.compile(r"GPUs? ([\d, ]{1,64})[^\n]{0,64} process (\d{1,9}) on node (\S{1,64})\s*$")
_RANK = re.compile(r"\s*Rank (\d{1,7})\b")
_LISTED = re.compile(r"\s*Process (\d{1,9}) on node (\S{1,64}) managing GPUs? (\d{1,3})")
_MANY = re.compile(r"\s*\d{1,7} ranks have (?:launched up to operation (\d{1,19})|not launched)")
_ONE = re.compile(r"has (?:launched up to operation (\d{1,19})|not launched any)")
_COUNTS = re.compile(r"\s*Communicator ranks have different [\w ]{0,48}operation counts")
# Of 4,096 ranks, a report in full has 100 bytes for each.
MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, order=True)
class RasProcess:
    """A process of a job as RAS names it."""

    node: str  # its address on the control network
    pid: int  # its id there
    gpu: int  # its first GPU


@dataclass(frozen=True, slots=True, order=True)
class LaggingRank:
    """A rank that launched fewer operations than others of its communicator."""

    process: RasProcess
    launched: int  # operations, 0 for none
    most: int  # operations of the rank that launched most


@dataclass(frozen=True)
class RasReport:
    """What RAS said of a job."""

    unresponsive: tuple[RasProcess, ...]  # processes that did not answer, or are considered dead
    lagging: tuple[LaggingRank, ...]


def parse_report(text: str) -> RasReport:
    """Return what a report of RAS says; nothing for a text that is none."""
    silent: dict[RasProcess, None] = {}
    lagging: dict[RasProcess, LaggingRank] = {}
    for kind, lines in _sections(text[:MOST_BYTES]):
        if kind in ("INCOMPLETE", "DEAD"):
            silent.update(dict.fromkeys(found for line in lines if (found := _process(line))))
        elif kind == "MISMATCH":
            lagging.update({each.process: each for each in _lagging(lines)})
    return RasReport(tuple(sorted(silent)), tuple(sorted(lagging.values())))


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the paragraphs under INCOMPLETE, DEAD and MISMATCH, without the heading."""
    kind = ""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        heading = _COMMUNICATOR.match(line)
        if heading or line.strip() in ("INCOMPLETE", "DEAD", "TIMEOUT") or not line.strip():
            if kind:
                yield kind, lines
            kind, lines = heading[2] if heading else line.strip(), []
        else:
            # Of several operations, only the first one is under the heading.
            kind = kind or ("MISMATCH" if _COUNTS.match(line) else "")
            lines.append(line)


def _process(line: str) -> RasProcess | None:
    """Return the process that a line names, None if it names none."""
    if found := _LISTED.match(line):
        return RasProcess(found[2], int(found[1]), int(found[3]))
    if found := _PROCESS.search(line):
        return RasProcess(found[3], int(found[2]), int(found[1].split(",")[0]))
    return None


def _lagging(lines: list[str]) -> Iterator[LaggingRank]:
    """Yield the ranks that launched fewer operations, of each operation that NCCL counts apart."""
    said: list[tuple[int, RasProcess]] = []
    most, now, counts = 0, 0, False
    for line in [*lines, "Communicator ranks have different operation counts"]:
        if _COUNTS.match(line):
            yield from (LaggingRank(process, n, most) for n, process in said if n < most)
            said, most, now, counts = [], 0, 0, True
        elif counts and (found := _MANY.match(line)):
            now = int(found[1] or 0)
            most = max(most, now)
        elif counts and _RANK.match(line) and (process := _process(line)):
            own = _ONE.search(line)
            launched = int(own[1] or 0) if own else now
            most = max(most, launched)
            said.append((launched, process))
