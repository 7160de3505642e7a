"""What lines say of a job that is broken: NCCL's WARNs and results, torch's errors, launchers'.

`causes` knows their words. A line of torch's names the rank that wrote it (`[rank1]: `); where it
is cut into several, the rank of the one before counts.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rdmaprov.nccl_log.causes import PREFIX, UNKNOWN, find_cause
from rdmaprov.nccl_log.events import Source
from rdmaprov.nccl_log.line import without_colours

_NOBODY = Source("", 0, -1)
_MOST = 2048  # different troubles; a job that has more says nothing new
_MOST_WARNINGS = 256  # of which the last ones count
# With its function since 2.30.7.
_RESULT = re.compile(rb"(?:group|proxy)\.c(?:c|pp):\d+(?: \(\w{1,80}\))? -> [1-68](?:\s|$)")
# What lines have that may matter and are none of NCCL's: of torch's, of launchers, of UCX.
_WORDS = (
    *(b"rror", b"nccl", b"Root Cause", b"Test CUDA", b"ignal", b"slurmstepd", b"daemon"),
    *(b"noticed that", b"return code", b"Transport retry", b"timed out", b"join collective"),
    *(b"Process name: [[", b"exiting improperly", b"connectFullMesh", b"UCX", b"nvshmem"),
    *(b"MPI_", b"peer_nic: ", b"pthread_create"),
)
_TEST = re.compile(r"^(\S{1,64}): Test (?:CUDA|NCCL) failure ")  # of nccl-tests
_RANK = re.compile(r"\[rank(\d{1,7})\]")
_RANK_OF_LINE = re.compile(r"\[(?:PG [^\]]{1,80} )?Rank (\d{1,7})\]")  # the only one before 2.2
_LOGGED = re.compile(r"^\[[EWI]\d{4} [^\]]*\] ?")
_LAST = re.compile(r"Last (?:error|RCCL warning): *(.*)")
_GROUP = re.compile(r"\[PG (?:ID \d+ PG GUID )?([^\s(]+)(?:\([^)]*\))? Rank \d{1,7}\]")
_WAITS = re.compile(r"detected by watchdog at work(?: sequence id)?: (\d{1,15})")
_WORK = re.compile(r"(?:last|Last) enqueued (?:NCCL )?work: (-?\d{1,15})(?!\d)")
_OPERATION = re.compile(r"WorkNCCL\(SeqNum=(\d{1,15}), OpType=(\w{1,40})")
_ROOT = re.compile(r"^(host|rank|exitcode) +: (\S+)")
_CALL = re.compile(
    rb"(\w{1,24}): opCount ([0-9a-f]{1,16}) .{0,80}? count (\d{1,19}) datatype (\d{1,3})"
    rb" .{0,60}\[nranks=(\d{1,7})\]"
)
_ENDED = (b"- Destroy COMPLETE", b"- Abort COMPLETE")
_STARTED = b"- Init COMPLETE"
_SIGNALS = {
    f"-{number}": f"by signal {number} ({number.name})"
    for number in (signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL, signal.SIGSEGV)
}


class RankTrouble(NamedTuple):
    """One thing that is broken, as one rank said it."""

    cause: str
    words: str
    host: str  # where; empty if unsaid
    pid: int  # of the process; 0 if unsaid
    rank: int | None  # that said it; None if unsaid
    file: str


class Call(NamedTuple):
    """An operation that a rank called last: NCCL's number, what it is, and how many values."""

    function: str
    number: int
    values: int
    datatype: int
    ranks: int


@dataclass(slots=True)
class TroubleTally:
    """All troubles that lines name."""

    file: str = ""
    troubles: dict[RankTrouble, None] = field(default_factory=dict)  # each once, in order
    # the last WARNs, by host and words
    warnings: dict[tuple[str, str], None] = field(default_factory=dict)
    # by rank of torch's, the operation in which it failed or waits: number and type
    operations: dict[int, tuple[int, str]] = field(default_factory=dict)
    # by group and rank, the operation that did not end for it
    waits: dict[tuple[str, int], int] = field(default_factory=dict)
    # by group and rank, the last operation that a rank is known to have called
    enqueued: dict[tuple[str, int], int] = field(default_factory=dict)
    # by process, the operation that it called last
    calls: dict[tuple[str, int], Call] = field(default_factory=dict)
    # processes whose communicators ended in order
    ended: set[tuple[str, int]] = field(default_factory=set)
    # processes of which a communicator was complete
    started: set[tuple[str, int]] = field(default_factory=set)
    # the rank of each process, at last
    ranks: Mapping[tuple[str, int], int] = field(default_factory=dict)
    source: Source = _NOBODY  # the process of the last line of NCCL's
    is_mixed: bool = False  # the file has lines of several processes
    rank: int | None = None  # whose line of torch's was the last one
    follows: str = ""  # `last` before the text of a last error, `root` within torchrun's root cause
    root: dict[str, str] = field(default_factory=dict)  # what of that was read

    def begin_file(self, name: str) -> None:
        """Begin a file: nothing of the last one's rank counts."""
        self.file, self.rank, self.follows = name, None, ""
        self.source, self.is_mixed = _NOBODY, False

    def wants(self, line: bytes) -> bool:
        """Return whether a line may matter that is none of NCCL's."""
        return bool(self.follows) or any(word in line for word in _WORDS)

    def add_message(self, source: Source, place: bytes, message: bytes) -> None:
        """Add a message of NCCL's; `place` is its place in the source, of a WARN alone."""
        if source.host:
            self.is_mixed |= bool(self.source.host) and source[:2] != self.source[:2]
            self.source = source
        if place:
            words = message.decode(errors="replace")
            self.warnings.pop((source.host, words), None)
            self.warnings[source.host, words] = None
            if len(self.warnings) > _MOST_WARNINGS:
                del self.warnings[next(iter(self.warnings))]
            self._add(f"{place.decode(errors='replace')} {words}", words, source)
        elif b" -> " in message and _RESULT.search(message):
            words = message.decode(errors="replace")
            self._add(words, words, source)
        elif b" opCount " in message and (call := _CALL.search(message)):
            name, number, count, datatype, ranks = call.groups()
            made = Call(name.decode(), int(number, 16), int(count), int(datatype), int(ranks))
            self.calls[source[:2]] = made
        elif message.endswith(_ENDED):
            self.ended.add(source[:2])
        elif message.endswith(_STARTED):
            self.started.add(source[:2])

    def add_text(self, line: bytes) -> bool:
        """Add a line of torch's, or of its launcher; return whether it names a trouble."""
        text = without_colours(line).decode(errors="replace").rstrip()
        if found := _RANK.search(text):
            self.rank = int(found[1])
        last = self.rank
        if not found and (found := _RANK_OF_LINE.search(text)):
            self.rank = int(found[1])
        names_one = self._add_text(text)
        self.rank = self.rank if self.follows == "root" else last
        return names_one

    def _add_text(self, text: str) -> bool:
        text = _LOGGED.sub("", PREFIX.sub("", text)).strip()
        if self.follows == "root":
            return self._add_root(text)
        if self.follows == "last":
            self.follows = ""
            if text and not text.startswith("Exception raised"):
                return self._add_last(text)
        if found := _LAST.search(text):
            if not found[1]:
                self.follows = "last"
                return True
            return self._add_last(found[1])
        if "Root Cause" in text:
            self.follows, self.root = "root", {}
            return False
        self._add_state(text)
        test = _TEST.search(text)
        return self._add(text, text, Source(test[1], 0, -1) if test else None)

    def name_ranks(self, ranks: Mapping[tuple[str, int], int]) -> TroubleTally:
        """Give each process its rank, and return the whole."""
        for each in list(self.troubles):
            if each.rank is None and (each.host, each.pid) in ranks:
                del self.troubles[each]
                self.troubles[each._replace(rank=ranks[each.host, each.pid])] = None
        self.ranks = ranks
        return self

    @property
    def ranks_that_ended(self) -> set[int]:
        """Return the ranks whose communicators ended in order."""
        return {self.ranks[process] for process in self.ended if process in self.ranks}

    def _add_last(self, text: str) -> bool:
        """Add a last error of torch's: NCCL gave up, whatever its words are."""
        self._add("Test NCCL failure . ", text, None)
        return self._add(text, text, None, UNKNOWN)

    def _add(self, text: str, words: str, source: Source | None, other: str = "") -> bool:
        known = find_cause(text)
        cause = known.id if known else other
        if not cause or (known and known.ends == "last" and source is not None):
            return False
        host, pid = (source or (_NOBODY if self.is_mixed else self.source))[:2]
        rank = self.rank if source is None else None
        if known and known.by and (named := known.said.search(text)):
            of = named.groupdict()
            host, pid, rank = of.get("host") or "", 0, int(of["rank"]) if of.get("rank") else None
        if len(self.troubles) < _MOST:
            self.troubles[RankTrouble(cause, words[:500], host, pid, rank, self.file)] = None
        return True

    def _add_state(self, text: str) -> None:
        """Note how far torch says that a rank is."""
        if self.rank is None:
            return
        if found := _OPERATION.search(text):
            self.operations.setdefault(self.rank, (int(found[1]), found[2]))
        if group := _GROUP.search(text):
            place = (group[1], self.rank)
            if found := _WAITS.search(text):
                self.waits.setdefault(place, int(found[1]))
            if found := _WORK.search(text):
                self.enqueued[place] = max(int(found[1]), self.enqueued.get(place, -1))

    def _add_root(self, text: str) -> bool:
        if text.startswith("==="):
            self.follows = ""
        if (found := _ROOT.match(text.strip())) is None:
            return False
        self.root[found[1]] = found[2]
        rank = self.root.get("rank", "0")
        code = found[2] if found[1] == "exitcode" else ""
        if re.fullmatch(r"-?[0-9]{1,5} [0-9]{1,7}", f"{code} {rank}"):
            self.rank, how = int(rank), _SIGNALS.get(code, f"with exit code {code}")
            on = f" on {self.root['host']}" if "host" in self.root else ""
            words = f"Root cause: rank {self.rank}{on} ended {how}"
            return self._add(words, words, None)
        return False
