"""All nodes, asked side by side; see docs/decisions/validate.md."""

import asyncio
import resource
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from rdmaprov.probe.batch import LOOK_S, Batch
from rdmaprov.probe.connection import AGENT, Answer, Command
from rdmaprov.probe.errors import NodeError, NodeUnreachable
from rdmaprov.probe.learning import Learning
from rdmaprov.probe.session import Limits, Session, close_all, fetch_all, open_all, sessions
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Takeover, Ways

# Of a connection, three; one more while it is opened. The others are the program's own.
_FILES_EACH = 4
_OTHER_FILES = 256

T = TypeVar("T")


class Probe:
    """The nodes of a fleet, each with one connection and what it answered so far.

    All methods are for one thread, and wait; the connections live in another one.

    Args:
        targets: by name, how each node is reached, or why it cannot be.
        limits: of time and number.
        together: whether what one node was asked is fetched from all others at once; else from
            each when its turn comes, as a process needs that judges some of the nodes.
        is_patient: whether a silent node gets one limit more; see Patience.
        acts: see Shared.

    Attributes:
        live: whether every command is run anew, whatever is known.
    """

    def __init__(
        self,
        targets: Mapping[str, Target | NodeError],
        limits: Limits | None = None,
        together: bool = True,
        is_patient: bool = True,
        acts: bool = False,
    ) -> None:
        self.live = False
        given = limits or Limits()
        self._ways = Ways(targets, min(given.opening, given.open))
        most = min(given.open, self._ways.processes)
        allowed = allow_files(most)
        self._limits = given if allowed >= most else replace(given, open=allowed)
        self._learning = Learning(tuple(targets), together)
        source = AGENT.read_bytes()
        self._sessions = sessions(targets, source, self._limits, self._ways, is_patient, acts)
        self._limit_of: dict[str, float] = {}
        self._early = together and max(self._ways.counts.values(), default=0) <= self._limits.open
        self._together = together
        self._everywhere: set[str] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        # Not what `is_alive` says: an interrupt within has it call a living thread stopped.
        self._turn = threading.Lock()  # of who comes first, the thread or the end
        self._is_started = self._is_serving = self._is_closed = False

    @property
    def taken(self) -> list[Takeover]:
        """Return the relays that were asked in the place of others."""
        return list(self._ways.taken.values())

    def run(
        self, name: str, text: str, fresh: bool = False, limit_s: float | None = None
    ) -> Answer:
        """Return a command's answer, from what was fetched before if it is there.

        Args:
            text: the command, as a shell reads it.
            fresh: run it now, whatever is known.
            limit_s: the command's own limit, instead of all commands'.

        Raises:
            NodeError: there is no answer; the message says why.
        """
        session = self._sessions[name]
        known = session.known
        live = fresh or self.live
        found = None if live else known.get(text)
        if found is None:
            if session.lost is not None:  # it is not tried again: no command needs an entry
                return self._take(name, session.lost)
            command = Command(text, self._limits.command_s if limit_s is None else limit_s)
            if live:
                return self._take(name, _outcome(self._ask(name, command)))
            self._limit_of[text] = command.limit_s
            self._fetch(self._learning.plan(name, text))
            found = known.get(text)
            if found is None:
                found = known[text] = _outcome(self._ask(name, command))
        if isinstance(found, Batch):
            found = known[text] = found.wait(text)
        return self._take(name, found)

    def begin(self, text: str, limit_s: float | None = None) -> None:
        """Ask all nodes now for what takes long, so that they wait side by side.

        Their answers are there for `run`. A process that judges some of the nodes asks no other.
        """
        if not self._together or text in self._everywhere:
            return
        self._everywhere.add(text)
        self._limit_of[text] = self._limits.command_s if limit_s is None else limit_s
        self._fetch({name: [text] for name in self._sessions})

    def run_all(
        self, commands: Mapping[str, Command], count: Callable[[], None] = lambda: None
    ) -> dict[str, Answer | NodeError]:
        """Return what a command of each node gave, run now and at the same time.

        Args:
            commands: by the nodes' names.
            count: is called for each answer, in the order of the nodes.
        """
        futures = {name: self._ask(name, command) for name, command in commands.items()}
        answers: dict[str, Answer | NodeError] = {}
        for name, future in futures.items():
            answers[name] = _outcome(future)
            count()
        return answers

    def close(self) -> None:
        """End all connections; a second time there is nothing to end."""
        if self._loop.is_closed():
            return
        with self._turn:
            serves = self._is_started or self._is_serving
            self._is_closed = not serves
        if serves:
            _wait(self._submit(close_all(list(self._sessions.values()), self._ways)))
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    def _serve(self) -> None:
        """Have the connections live, unless an interrupt ended all while this thread started."""
        with self._turn:
            if self._is_closed:
                return
            self._is_serving = True
        self._loop.run_forever()

    def _take(self, name: str, found: Answer | NodeError) -> Answer:
        if isinstance(found, Answer):
            return found
        if isinstance(found, NodeUnreachable):
            self._learning.replace_teacher(name)
        # A new one: an exception that is raised again and again keeps every frame of it.
        raise type(found)(found.message, found.hint)

    def _ask(self, name: str, command: Command) -> Future[Answer]:
        return self._submit(self._sessions[name].ask(command))

    def _fetch(self, plan: Mapping[str, Sequence[str]]) -> None:
        """Fetch what nodes are planned to be asked and were not yet."""
        commands: dict[str, Command] = {}
        batches: list[tuple[Session, Batch]] = []
        for name, texts in plan.items():
            session = self._sessions[name]
            missing = [text for text in texts if text not in session.known]
            if session.lost is not None or not missing:
                continue
            for text in missing:
                if text not in commands:
                    commands[text] = Command(text, self._limit_of[text])
            batch = Batch(tuple(commands[text] for text in missing))
            session.known.update(dict.fromkeys(missing, batch))
            batches.append((session, batch))
        if batches:
            self._submit(fetch_all(batches))

    def _submit(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        started = self._is_started or self._is_serving
        if not started:
            try:
                self._thread.start()
            except KeyboardInterrupt:
                work.close()  # or Python complains that nobody awaited it
                raise
            self._is_started = True
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        if not started and self._early:
            # All others connect while the first one is asked.
            nodes = list(self._sessions.values())
            asyncio.run_coroutine_threadsafe(open_all(nodes), self._loop)
        return future


def _outcome(future: Future[Answer]) -> Answer | NodeError:
    try:
        return _wait(future)
    except NodeError as error:
        return error


def _wait(future: Future[T]) -> T:
    while True:
        try:
            return future.result(LOOK_S)
        except TimeoutError:
            if future.done():
                return future.result()


def allow_files(connections: int) -> int:
    """Raise the limit of open files as far as needed; return how many connections it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES_EACH * connections + _OTHER_FILES
    if resource.RLIM_INFINITY in (soft, hard):
        return connections
    if soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, (soft - _OTHER_FILES) // _FILES_EACH)
