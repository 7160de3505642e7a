"""One connection to one node: ssh, the agent at its other end, and requests in flight."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.reasons import reason
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable

AGENT = Path(__file__).with_name("agent.py")
# Behind the time for the connection, for sudo and for Python on a slow disk.
_START_S = 10
_END_S = 2
_LONGEST_LINE = 64 * 1024 * 1024
_SHOWN = 60


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

    """

    text: str
    limit_s: float
    given: bytes = b""

    def request(self, number: int) -> str:
        """Return the command as the agent reads it."""
        entry: dict[str, object] = {"id": number, "command": self.text, "limit": self.limit_s}
        if self.given:
            entry["input"] = base64.b64encode(self.given).decode()
        return json.dumps(entry) + "\n"

    @property
    def shown(self) -> str:
        """Return the command as a message has it."""
        line = printable(self.text)
        return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 3]}..."


class Connection:
    """A connection that is open; see `opened`."""

    def __init__(self, target: Target, mark: str, process: subprocess.Popen[bytes]) -> None:
        self._target = target
        self._mark = mark
        self._process = process
        self._ids = itertools.count()
        self._waiting: dict[int, tuple[Command, asyncio.Future[Answer]]] = {}
        self._said = bytearray()
        self._failure: NodeError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._input: asyncio.WriteTransport | None = None

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
        transport.write(source)
        limit = self._target.connect_s + _START_S
        try:
            await asyncio.wait_for(self._marked(), limit)
        except TimeoutError:
            error = NodeUnreachable(
                f"{self._target.name}: no answer in {limit} s", f"Try: ssh {self._target.address}"
            )
            raise error from None
        self._tasks.append(asyncio.create_task(self._receive()))

    async def _marked(self) -> None:
        while line := await self._output.readline():
            if line.rstrip() == self._mark.encode():
                return
        raise await self._ended()

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
        self._input.write("".join(requests).encode())
        return futures

    async def _receive(self) -> None:
        try:
            while line := await self._output.readline():
                entry = json.loads(line)
                command, future = self._waiting.pop(entry["id"])
                self._fulfil(future, command, entry)
            self.fail(await self._ended())
        except (ValueError, KeyError, TypeError):
            self.fail(
                NodeUnreachable(
                    f"{self._target.name}: something else writes into the connection",
                    "Look at what the login shell starts in the background",
                )
            )

    def _fulfil(
        self, future: asyncio.Future[Answer], command: Command, entry: dict[str, object]
    ) -> None:
        if future.done():
            return
        rc, out, err = (entry.get(key) for key in ("rc", "out", "err"))
        if isinstance(rc, int) and isinstance(out, str) and isinstance(err, str):
            future.set_result(Answer(rc, out, err))
            return
        why = printable(str(entry.get("error", "an answer that is none")))
        where = self._target.address or self._target.name
        future.set_exception(
            NoAnswer(f"{self._target.name}: {why}: {command.shown}", f"Run it by hand: ssh {where}")
        )

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(4096):
            self._said = (self._said + data)[-8192:]

    async def _ended(self) -> NodeUnreachable:
        """Return why the connection is at its end."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._tasks[0]), _END_S)
        for _ in range(20):
            if self._process.poll() is not None:
                break
            await asyncio.sleep(_END_S / 20)
        said, target = self._said.decode(errors="replace"), self._target
        found = reason(said, self._process.poll(), target.name, target.address)
        return NodeUnreachable(f"{target.name}: {found.what}", found.remedy)

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
        self._process.wait()


async def _reader(pipe: object) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def opened(target: Target, source: bytes) -> Connection:
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
    remote = f"{target.python} -I -S -c {shlex.quote(boot)} {mark}"
    try:
        process = subprocess.Popen(
            [*target.argv, remote],
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
