"""The phase and progress of a rank, which it shows to others, and its end when it is late."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .ras import ask_or_wait

if TYPE_CHECKING:
    from .group import RankCommunicator

# Process id, communicator, its collectives entered and left; then a text. The supervisor reads it.
PROGRESS = struct.Struct("<QQQQ")
PROGRESS_BYTES = 256
_EVIDENCE_S = 10
# With NCCL, a collective returns at once, and a rank waits for its GPU.
WAITS = ("/torch/distributed/", "/torch/cuda/")
EXIT_LATE = 3  # exit status of a rank that was at one thing for too long


def say(event: str, *, rank: int | None = None, **fields: Any) -> None:
    """Print one event, of this rank by default; one write, so that lines of several do not mix."""
    own = int(os.environ["RANK"]) if rank is None else rank
    line = json.dumps({"rank": own, "event": event, **fields})
    os.write(1, line.encode() + b"\n")


def place(stack: Sequence[traceback.FrameSummary]) -> str:
    """Return where a rank is: within a wait the wait, even if Python tidies up there.

    Empty if it performs no task any more: an end that takes its time holds up nobody.
    """
    waits = [each for each in stack if any(part in each.filename for part in WAITS)]
    at = [*waits, stack[-1]][0] if stack else None
    works = any(each.filename.endswith("agent/main.py") for each in stack)
    return f"{at.filename}:{at.lineno} {at.name}" if at and works else ""


class Watch:
    """The step that this rank is in, for others to see; a step that lasts too long ends the rank.

    Attributes:
        entered: how many collectives were begun on the communicator that it is at.
        task: its number; what most others show of it may shorten its steps (ranks/session.py).
        evidence: reports what may explain the cause, before the rank is ended.
        uses_nccl: whether NCCL can be asked who is late, too.
    """

    def __init__(self, path: Path) -> None:
        self.entered = 0
        self.evidence: Callable[[], None] = lambda: None
        self.uses_nccl = False
        self._step = 0.0, float("inf")  # when it began, and its limit
        self.task = -1
        self._directory = path.parent
        self.name = ""
        self._waits_for: int | None = None
        path.write_bytes(bytes(PROGRESS_BYTES))
        with path.open("r+b") as file:
            self._shown = mmap.mmap(file.fileno(), PROGRESS_BYTES)
        PROGRESS.pack_into(self._shown, 0, os.getpid(), 0, 0, 0)
        self._main = threading.get_ident()
        threading.Thread(target=self._end_when_late, daemon=True).start()

    def begin_phase(self, name: str, limit_s: float) -> None:
        """Begin a phase, and limit the time of each of its steps."""
        self.name, self._step = name, (time.monotonic(), limit_s)
        text = name.encode()[: PROGRESS_BYTES - PROGRESS.size]
        self._shown[PROGRESS.size :] = text.ljust(PROGRESS_BYTES - PROGRESS.size, b"\0")
        say("phase", phase=name)

    def begin_step(self) -> None:
        """Begin a step."""
        self._step = time.monotonic(), self._step[1]

    def time_collective(self, work: Callable[[], None], communicator: RankCommunicator) -> float:
        """Return the seconds that a collective on a communicator took."""
        self.begin_step()
        communicator.entered += 1
        self.entered = communicator.entered
        at = os.getpid(), communicator.number, self.entered
        PROGRESS.pack_into(self._shown, 0, *at, self.entered - 1)
        begin = time.perf_counter()
        work()
        seconds = time.perf_counter() - begin
        PROGRESS.pack_into(self._shown, 0, *at, self.entered)
        return seconds

    @contextmanager
    def waiting_for(self, rank: int) -> Iterator[None]:
        """Tell that what follows only waits for another rank; -1 for any other one."""
        self._waits_for = rank
        yield
        self._waits_for = None

    def _limit(self) -> tuple[float, float]:
        """Return when the step began, and its limit: the controller may have shortened it."""
        began, limit = self._step
        with suppress(OSError, ValueError):
            limit = min(limit, float((self._directory / f"hurry.{self.task}").read_text()))
        return began, limit

    def _end_when_late(self) -> None:
        while time.monotonic() < sum(step := self._limit()):
            time.sleep(0.2)
        frame = sys._current_frames().get(self._main)
        where = place(traceback.extract_stack(frame)) if frame else ""
        if self._waits_for is not None:
            where = f"/torch/distributed/ store: waits for rank {self._waits_for}"
        say("late", phase=self.name, limit_s=step[1], where=where, entered=self.entered)
        # What it asks may hang as well.
        evidence = threading.Thread(target=self.evidence, daemon=True)
        evidence.start()
        evidence.join(_EVIDENCE_S)
        if self.uses_nccl and (report := ask_or_wait()):
            say("ras", report=report)
        os._exit(EXIT_LATE)
