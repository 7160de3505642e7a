"""Files, names and receivers of strangers, for verbs that meet no node: what must hold of each.

Whatever a stranger makes, the verb ends by itself within 10 s and 500 MB, with an exit code that is
right for it, without a traceback, an escape, a secret or a file outside of its own place.
"""

import contextlib
import itertools
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import process
from pathlib import Path
from typing import Any

from tests.program import fork

MOST_S = 10.0
MOST_KB, ALONE_KB = 500_000, 60_000
SECRET = "hunter2"
_TOGETHER = 4  # inputs at once, as some wait
_KILLED_S = 3 * MOST_S


def _sent(said: str | list[Any]) -> bytes:
    """Return what a receiver says: a text, or texts, of which each may be said many times."""
    parts = [said] if isinstance(said, str) else said
    texts = (part if isinstance(part, str) else part[0] * part[1] for part in parts)
    return "".join(texts).replace("@SECRET@", SECRET).encode("latin-1")


def listen(first: str | list[Any], more: str | list[Any], pause: float) -> int:
    """Return the port of a receiver that says something first, and then again after each pause."""
    head, again = _sent(first), _sent(more)
    server = socket.create_server(("127.0.0.1", 0))

    def talk(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(1 << 16)
            connection.sendall(head)
            end = time.monotonic() + 60
            while pause and time.monotonic() < end:
                connection.sendall(again)
                time.sleep(pause)

    def accept() -> None:
        while True:
            threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return int(server.getsockname()[1])


@dataclass(frozen=True)
class Input:
    """Something of a stranger's."""

    title: str  # what it is; no other one of its area has the title
    # writes it below the working directory; returns the words of the program
    make: Callable[[Path], Sequence[object]]
    codes: frozenset[int]  # the exit codes that are right
    # returns what is wrong with the working directory and what was printed, if anything
    wrong: Callable[[Path, str], str] = lambda _place, _said: ""
    environment: Mapping[str, str] = field(default_factory=dict)  # of the program


class Try:
    """One input, which the program meets in a fork of this process.

    Its working directory is `work`; beside it, `outside` has what nobody may touch.
    """

    def __init__(self, given: Input, directory: Path) -> None:
        self._given, self._place = given, directory / "work"
        self._outside = directory / "outside"
        self._place.mkdir(parents=True)
        self._outside.mkdir()
        (self._outside / "victim").write_text("mine")
        self._words = given.make(self._place)
        self._before = self._kept()

    def start(self) -> None:
        """Start the program, once what others meet beside it is made: that may take seconds."""
        # A fork has all of this process's memory, of which the program alone would need ALONE_KB.
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        self._own_kb = max(0, resident * os.sysconf("SC_PAGE_SIZE") // 1024 - ALONE_KB)
        self._said = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - until `harm`
        with Path(os.devnull).open() as nothing:
            out = self._said.fileno()
            program = fork(
                self._words, self._place, (nothing.fileno(), out, out), self._given.environment
            )
            self._began = time.monotonic()
        # Else the next fork would wait for this one, and its memory would be unknown.
        process._children.discard(program)  # type: ignore[attr-defined]
        self._pid = int(program.pid or 0)

    def _kept(self) -> list[tuple[str, str, int]]:
        files = sorted(self._outside.rglob("*"))
        return [(path.name, path.read_text(), path.stat().st_mode) for path in files]

    def has_ended(self) -> bool:
        """Return whether the program has ended; one that takes far too long is killed."""
        # Less what it waited for a processor, which others had: the second number, ns.
        waited = int(Path(f"/proc/{self._pid}/schedstat").read_text().split()[1]) / 1e9
        took = time.monotonic() - self._began - waited
        if took > _KILLED_S:
            os.kill(self._pid, signal.SIGKILL)
        found, status, usage = os.wait4(self._pid, os.WNOHANG)
        most_kb = usage.ru_maxrss - self._own_kb
        self._ended = os.waitstatus_to_exitcode(status), took, most_kb
        return bool(found)

    def harm(self) -> Iterator[str]:
        """Yield what the program, which has ended, did that it must not."""
        self._said.seek(0)
        said = self._said.read()
        self._said.close()
        code, took, most_kb = self._ended
        if code not in self._given.codes:
            yield f"exit code {code}: {said[-300:]!r}"
        if took > MOST_S:
            yield f"{took:.0f} s"
        if most_kb > MOST_KB:
            yield f"{most_kb // 1000} MB"
        if "Traceback" in said or "\x1b" in said or SECRET in said:
            yield f"printed: {said[-300:]!r}"
        canaries = (self._place / "canary", Path("/tmp/canary"))  # noqa: S108 - of hostile.wrong
        if self._kept() != self._before or any(path.exists() for path in canaries):
            yield "wrote outside"
        if why := self._given.wrong(self._place, said):
            yield why


def tried(inputs: Iterable[Input], directory: Path) -> Iterator[tuple[str, list[str]]]:
    numbered = enumerate(inputs)
    while batch := list(itertools.islice(numbered, _TOGETHER)):
        started = [(each.title, Try(each, directory / str(number))) for number, each in batch]
        running = [each for _, each in started]
        for each in running:
            each.start()
        while running := [each for each in running if not each.has_ended()]:
            time.sleep(0.01)
        for title, each in started:
            yield title, list(each.harm())
