"""One connection to one node: ssh, the agent at its other end, and requests in flight."""

import asyncio
import secrets
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain, count, islice, repeat
from pathlib import Path
from sys import intern
from typing import TypeVar

from rdmaprov.probe.agent import NOR
from rdmaprov.probe.errors import LoginDropped, NoAnswer, NodeError, NodeSilent, NodeUnreachable
from rdmaprov.probe.link import END_S, SshLink, start_here
from rdmaprov.probe.output import MOST_NODE_BYTES, AgentOutput, ErrorOutput
from rdmaprov.probe.patience import Patience
from rdmaprov.probe.reasons import REJECTED, reason
from rdmaprov.probe.sudo import PROMPT, Refused, Sudo
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable

AGENT = Path(__file__).with_name("agent.py")
# Behind the time for the connection, for sudo and for Python on a slow disk.
_START_S = 10
_SHOWN = 60
# Behind a connection's mark: sudo's prompt, and what Python says that has got past sudo.
_ASKS = "-password:"
_UP = "-up"
_CODEC = "utf-8", "surrogateescape"
# Texts up to here are kept once for all nodes that say the same, short answers whole.
_MOST_SHARED, _SHORT = 1024 * 1024, 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gave: its exit status, and what it wrote."""

    rc: int
    out: str
    err: str


@dataclass(frozen=True)
class Command:
    """What is asked of a node.

    Args:
        text: as the node's shell reads it.
        limit_s: seconds it may take.
        given: its standard input.
        shared: what comes before that, and is the same for many nodes: one copy in memory.
    """

    text: str
    limit_s: float
    given: bytes = b""
    shared: bytes = b""

    def request(self, number: int, is_patient: bool = False) -> tuple[bytes, ...]:
        """Return the command as the agent reads it, in parts."""
        limit = f"{number} {self.limit_s}{'+' if is_patient else ''}"
        return limit.encode(), self._head, self.shared, self.given

    @cached_property
    def _head(self) -> bytes:
        """What follows the limit: lengths and the command, the same for all nodes."""
        command = self.text.encode(*_CODEC)
        lengths = f"{len(command)} {len(self.shared) + len(self.given)}"
        return f" {lengths}\n".encode() + command

    @property
    def label(self) -> str:
        """Return the command as a message has it."""
        line = printable(self.text)
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


Deliver = Callable[[Command, Answer | NodeError], None]
"""Gets what came of a request."""


@lru_cache(64)
def _joined(commands: tuple[Command, ...], first: int, is_patient: bool) -> bytes:
    """Return commands as the agent reads them, with numbers from `first` on: many nodes' own."""
    numbered = enumerate(commands, first)
    return b"".join(chain.from_iterable(one.request(at, is_patient) for at, one in numbered))


class Connection:
    """A connection that is open; see `open_connection`."""

    most_bytes: float = MOST_NODE_BYTES

    def __init__(
        self, target: Target, mark: str, link: SshLink, patience: Patience | None = None
    ) -> None:
        self._target = target
        self._patience = patience or Patience(is_spent=True)
        self._mark = mark
        self._link = link
        self._ids = count()
        self._waiting: dict[int, tuple[Command, Deliver]] = {}
        self._failure: NodeError | None = None
        self._ending: asyncio.Future[NodeError] | None = None
        self._sudo = Sudo(mark + _ASKS, target.password)
        self._is_up = False
        self._refused = False
        self._output = AgentOutput(self._waiting, self._receive, self._end, self.most_bytes)
        self._errors = ErrorOutput(self._answer_sudo)

    async def start(self, source: bytes) -> None:
        """Start the agent and wait for its mark.

        Raises:
            NodeUnreachable: there is none in time, with the reason.
        """
        await self._link.open(self._output, self._errors)
        limit = self._target.connect_s + _START_S
        shaking = asyncio.ensure_future(self._handshake(source))
        try:
            if vain := await self._patience.wait(shaking, limit, limit):
                what = f"{self._target.name}: no answer in {vain}"
                raise NodeUnreachable(what, f"Try: {self._target.login_command}")
            await shaking
        finally:
            shaking.cancel()

    async def _handshake(self, source: bytes) -> None:
        if self._target.password:
            # What is written while sudo still asks would be another try at its password.
            await self._await_mark(self._mark + _UP, last=False)
        self._is_up = True
        self._link.write([source])
        await self._await_mark(self._mark, last=True)

    async def _await_mark(self, mark: str, *, last: bool) -> None:
        if await self._output.await_mark(mark.encode(), last=last):
            return
        if self._refused:
            raise NodeUnreachable(f"{self._target.name}: {REJECTED.what}", REJECTED.remedy)
        assert self._ending is not None  # noqa: S101 - its end was noted first
        raise await asyncio.shield(self._ending)

    def _answer_sudo(self) -> None:
        if self._is_up or not self._target.password:
            return
        try:
            self._link.write([self._sudo.answer(bytes(self._errors.said))])
        except Refused:
            self._refused = True
            self._link.end_input()

    def send(self, command: Command) -> asyncio.Future[Answer]:
        """Ask for a command; return a future for its answer.

        Its exception is NoAnswer, if there is none to this command, or NodeUnreachable, if there
        will be none to any.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if numbers := self._note((command,), partial(_settle, future)):
            self._link.write(command.request(numbers[0], not self._patience.is_spent))
        return future

    def request(self, commands: tuple[Command, ...], deliver: Deliver) -> None:
        """Ask for commands, in one write; give each one's answer, or why there is none, away.

        Args:
            commands: without input; those of many nodes are written once.
        """
        if numbers := self._note(commands, deliver):
            self._link.write([_joined(commands, numbers[0], not self._patience.is_spent)])

    def _note(self, commands: tuple[Command, ...], deliver: Deliver) -> list[int]:
        """Return the numbers of new requests; none if there will be no answer."""
        if self._failure is not None:
            for command in commands:
                deliver(command, self._failure)
            return []
        numbers = list(islice(self._ids, len(commands)))
        self._waiting.update(zip(numbers, zip(commands, repeat(deliver)), strict=True))
        return numbers

    def _receive(self, number: int, status: int | None, out: bytearray, err: bytearray) -> None:
        """Give an answer to who waits for it."""
        command, deliver = self._waiting.pop(number)
        if status is None:
            why = err.decode(*_CODEC)
            self._patience.is_spent |= NOR in why
            deliver(command, self._no_answer(command, why))
        else:
            make = _answer if len(out) + len(err) <= _SHORT else _answer.__wrapped__
            deliver(command, make(status, bytes(out), bytes(err)))

    def _no_answer(self, command: Command, why: str) -> NoAnswer:
        what = f"{self._target.name}: {printable(why)}: {command.label}"
        return NoAnswer(what, f"Run it by hand: {self._target.login_command}")

    def _end(self, is_odd: bool) -> None:
        """Find out why the connection is at its end, unless we ended it; that takes a moment."""
        loop = asyncio.get_running_loop()
        if self._failure is None:
            self._ending = loop.create_task(self._find_reason(is_odd))
        else:
            self._ending = loop.create_future()
            self._ending.set_result(self._failure)

    async def _find_reason(self, is_odd: bool) -> NodeError:
        error = self._odd_output() if is_odd else await self._end_reason()
        self.fail(error)
        if is_odd:
            self._link.stop()  # or who never stops talking is read until the run ends
        return error

    def _odd_output(self) -> NodeUnreachable:
        return NodeUnreachable(
            f"{self._target.name}: unexpected output on the connection",
            "Check what the login shell starts in the background",
        )

    async def _end_reason(self) -> NodeUnreachable:
        """Return why the connection is at its end."""
        await self._errors.await_end(END_S)
        for _ in range(20):
            if self._link.lost is not None:
                return self._link.lost.of_relay(self._target.name)
            if self._link.poll() is not None:
                break
            await asyncio.sleep(END_S / 20)
        said, target = self._errors.said.decode(errors="replace"), self._target
        found = reason(said, self._link.poll(), target)
        kinds = (found.is_silence, NodeSilent), (found.is_drop, LoginDropped)
        kind = next((kind for is_it, kind in kinds if is_it), NodeUnreachable)
        return kind(f"{target.name}: {found.what}", found.remedy)

    @property
    def has_failed(self) -> bool:
        """Return whether nothing more will be answered."""
        return self._failure is not None

    def fail(self, error: NodeError) -> None:
        """Have everything that waits, and everything that is asked later, get this error."""
        self._failure = self._failure or error
        waiting = list(self._waiting.values())
        self._waiting.clear()
        for command, deliver in waiting:
            deliver(command, self._failure)

    def stop(self) -> None:
        """Have the connection end: the agent ends with its input."""
        self.fail(NodeUnreachable(f"{self._target.name}: the connection was closed", ""))
        if self._ending is not None:
            self._ending.cancel()
        self._link.stop()

    def close(self) -> None:
        """End the connection, and see its process end."""
        self.stop()
        self._link.close()


@lru_cache(4096)
def _answer(status: int, out: bytes, err: bytes) -> Answer:
    """Return an answer whose texts have each byte."""
    return Answer(status, _text(out), _text(err))


def _text(data: bytes) -> str:
    text = data.decode(*_CODEC)
    return intern(text) if len(text) <= _MOST_SHARED else text


def _settle(future: asyncio.Future[Answer], _command: Command, found: Answer | NodeError) -> None:
    if future.done():
        return
    if isinstance(found, NodeError):
        future.set_exception(found)
    else:
        future.set_result(found)


Start = Callable[[Target, Sequence[str]], Awaitable[SshLink]]
"""Starts ssh to a node."""
AnyConnection = TypeVar("AnyConnection", bound=Connection)


async def open_connection(
    target: Target, source: bytes, patience: Patience | None = None, start: Start = start_here
) -> Connection:
    """Return a connection to a node with the agent at its other end.

    Args:
        patience: with the node, of its whole run; with None, each limit is the last.

    Raises:
        NodeUnreachable: there is none, with the reason; NodeSilent if ssh itself gave up.
    """
    return await open_as(Connection, target, source, patience, start)


async def open_as(
    kind: type[AnyConnection],
    target: Target,
    source: bytes,
    patience: Patience | None,
    start: Start = start_here,
) -> AnyConnection:
    """Return a connection of a kind with a program at its other end; see `open_connection`."""
    # A mark that nothing on the node can print by itself.
    mark = f"rdmaprov-{secrets.token_hex(8)}"
    boot = f"import sys;exec(sys.stdin.buffer.read({len(source)}))"
    if target.password:
        boot = f"import sys;print(chr(10)+sys.argv[1]+'{_UP}',flush=True);{boot}"
    remote = f"{target.python.replace(PROMPT, mark + _ASKS)} -I -S -c {shlex.quote(boot)} {mark}"
    connection = kind(target, mark, await start(target, target.command(remote)), patience)
    try:
        await connection.start(source)
    except BaseException:
        connection.close()
        raise
    return connection
