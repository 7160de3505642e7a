"""One connection to one node: ssh, the agent at its other end, and requests in flight."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.probe.agent import MOST_BYTES
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.reasons import REJECTED, reason
from rdmaprov.probe.sudo import PROMPT, Refused, Sudo
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable

AGENT = Path(__file__).with_name("agent.py")
# Behind the time for the connection, for sudo and for Python on a slow disk.
_START_S = 10
_END_S = 2
# What says more than the agent does is not the agent: the head of an answer, one stream of it (the
# agent reads in pieces, and stops behind its limit), all answers of a connection.
_MOST_HEAD_BYTES = 64
_MOST_STREAM_BYTES = MOST_BYTES + 1024 * 1024
_MOST_NODE_BYTES = 64 * 1024 * 1024
# Number, exit status ("-" for none), bytes of standard output, bytes of standard error.
_HEAD = re.compile(rb"(\d{1,9}) (-|-?\d{1,3}) (\d{1,9}) (\d{1,9})\n")
_SHOWN = 60
# Behind a connection's mark: sudo's prompt, and what Python says that has got past sudo.
_ASKS = "-password:"
_UP = "-up"


@dataclass(frozen=True)
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

    def request(self, number: int) -> bytes:
        """Return the command as the agent reads it."""
        command = self.text.encode("utf-8", "surrogateescape")
        head = f"{number} {self.limit_s} {len(command)} {len(self.shared) + len(self.given)}\n"
        return b"".join((head.encode(), command, self.shared, self.given))

    @property
    def label(self) -> str:
        """Return the command as a message has it."""
        line = printable(self.text)
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


class Connection:
    """A connection that is open; see `open_connection`."""

    def __init__(self, target: Target, mark: str, process: subprocess.Popen[bytes]) -> None:
        self._target = target
        self._mark = mark
        self._process = process
        self._ids = itertools.count()
        self._waiting: dict[int, tuple[Command, asyncio.Future[Answer]]] = {}
        self._said = bytearray()
        self._received = 0
        self._failure: NodeError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._input: asyncio.WriteTransport | None = None
        self._sudo = Sudo(mark + _ASKS, target.password)
        self._is_up = False
        self._refused = False

    async def start(self, source: bytes) -> None:
        """Start the agent and wait for its mark.

        Raises:
            NodeUnreachable: there is none in time, with the reason.

        """
        loop = asyncio.get_running_loop()
        assert self._process.stdin  # noqa: S101 - it was asked for
        transport, _ = await loop.connect_write_pipe(asyncio.Protocol, self._process.stdin)
        self._input = transport
        self._output = await _reader(self._process.stdout)
        self._tasks.append(asyncio.create_task(self._listen(await _reader(self._process.stderr))))
        limit = self._target.connect_s + _START_S
        try:
            await asyncio.wait_for(self._handshake(source), limit)
        except TimeoutError:
            error = NodeUnreachable(
                f"{self._target.name}: no answer in {limit} s", f"Try: {self._target.login_command}"
            )
            raise error from None
        self._tasks.append(asyncio.create_task(self._receive()))

    async def _handshake(self, source: bytes) -> None:
        assert self._input is not None  # noqa: S101 - it was started
        if self._target.password:
            # What is written while sudo still asks would be another try at its password.
            await self._await_mark(self._mark + _UP)
        self._is_up = True
        self._input.write(source)
        await self._await_mark(self._mark)

    async def _await_mark(self, mark: str) -> None:
        try:
            while line := await self._output.readline():
                if line.rstrip() == mark.encode():
                    return
        except ValueError:  # a line without end
            raise self._odd_output() from None
        if self._refused:
            raise NodeUnreachable(f"{self._target.name}: {REJECTED.what}", REJECTED.remedy)
        raise await self._end_reason()

    def _answer_sudo(self) -> None:
        assert self._input is not None  # noqa: S101 - it was started
        try:
            self._input.write(self._sudo.answer(bytes(self._said)))
        except Refused:
            self._refused = True
            self._input.close()

    def send(self, commands: Sequence[Command]) -> list[asyncio.Future[Answer]]:
        """Ask for commands, in one write; return a future for each one's answer.

        A future's exception is NoAnswer, if there is none to this command, or NodeUnreachable, if
        there will be none to any.
        """
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Answer]] = [loop.create_future() for _ in commands]
        if self._failure is not None:
            for future in futures:
                future.set_exception(self._failure)
            return futures
        requests = []
        for command, future in zip(commands, futures, strict=True):
            number = next(self._ids)
            self._waiting[number] = (command, future)
            requests.append(command.request(number))
        assert self._input is not None  # noqa: S101 - it was started
        self._input.write(b"".join(requests))
        return futures

    async def _receive(self) -> None:
        try:
            while line := await self._output.readline():
                await self._receive_answer(line)
            self.fail(await self._end_reason())
        except asyncio.IncompleteReadError:
            self.fail(await self._end_reason())
        except ValueError:
            self.fail(self._odd_output())

    def _odd_output(self) -> NodeUnreachable:
        return NodeUnreachable(
            f"{self._target.name}: unexpected output on the connection",
            "Check what the login shell starts in the background",
        )

    async def _receive_answer(self, line: bytes) -> None:
        """Give an answer to who waits for it; a request stays open until its answer is whole."""
        head = _HEAD.fullmatch(line)
        if head is None or int(head[1]) not in self._waiting:
            raise ValueError(line[:_MOST_HEAD_BYTES])
        out, err = [await self._text(int(length)) for length in head.group(3, 4)]
        # It was given up if the connection failed in the meantime.
        command, future = self._waiting.pop(int(head[1]), (None, None))
        if command is None or future is None or future.done():
            return
        if head[2] == b"-":
            future.set_exception(self._no_answer(command, err))
        else:
            future.set_result(Answer(int(head[2]), out, err))

    async def _text(self, length: int) -> str:
        """Return the next bytes as text that has each of them."""
        self._received += length
        if length > _MOST_STREAM_BYTES or self._received > _MOST_NODE_BYTES:
            raise ValueError(length)
        return (await self._output.readexactly(length)).decode("utf-8", "surrogateescape")

    def _no_answer(self, command: Command, why: str) -> NoAnswer:
        what = f"{self._target.name}: {printable(why)}: {command.label}"
        return NoAnswer(what, f"Run it by hand: {self._target.login_command}")

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(4096):
            self._said = (self._said + data)[-8192:]
            if self._target.password and not self._is_up:
                self._answer_sudo()

    async def _end_reason(self) -> NodeUnreachable:
        """Return why the connection is at its end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), _END_S)
        for _ in range(20):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(_END_S / 20)
        said, target = self._said.decode(errors="replace"), self._target
        found = reason(said, self._process.poll(), target)
        return NodeUnreachable(f"{target.name}: {found.what}", found.remedy)

    @property
    def has_failed(self) -> bool:
        """Return whether nothing more will be answered."""
        return self._failure is not None

    def fail(self, error: NodeError) -> None:
        """Have everything that waits, and everything that is asked later, get this error."""
        self._failure = self._failure or error
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(self._failure)
        self._waiting.clear()

    def close(self) -> None:
        """End the connection; the agent ends with its input."""
        self.fail(NodeUnreachable(f"{self._target.name}: the connection was closed", ""))
        for task in self._tasks:
            task.cancel()
        if self._input is not None:
            self._input.close()
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def _reader(pipe: object) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def open_connection(target: Target, source: bytes) -> Connection:
    """Return a connection to a node with the agent at its other end.

    Args:
        target: the node.
        source: the agent's.

    Raises:
        NodeUnreachable: there is none, with the reason.

    """
    # A mark that nothing on the node can print by itself.
    mark = f"rdmaprov-{secrets.token_hex(8)}"
    boot = f"import sys;exec(sys.stdin.buffer.read({len(source)}))"
    if target.password:
        boot = f"import sys;print(chr(10)+sys.argv[1]+'{_UP}',flush=True);{boot}"
    remote = f"{target.python.replace(PROMPT, mark + _ASKS)} -I -S -c {shlex.quote(boot)} {mark}"
    try:
        process = subprocess.Popen(
            target.command(remote),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise NodeUnreachable(f"{target.name}: {target.argv[0]}: {error.strerror}", "") from error
    connection = Connection(target, mark, process)
    try:
        await connection.start(source)
    except BaseException:
        connection.close()
        raise
    return connection
