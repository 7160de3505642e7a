"""What comes from a node's connection: its mark, then the agent's answers."""

import asyncio
import re
from collections.abc import Callable, Container

from rdmaprov.probe.agent import MOST_BYTES

# What says more than the agent does is not the agent: a line before the mark, the head of an
# answer, one stream of it (the agent reads in pieces, and stops behind its limit), all answers.
_MOST_LINE_BYTES = 64 * 1024
_MOST_HEAD_BYTES = 64
_MOST_STREAM_BYTES = MOST_BYTES + 1024 * 1024
MOST_NODE_BYTES = 64 * 1024 * 1024
_MOST_SAID_BYTES = 8192
# Number, exit status ("-" for none), bytes of standard output, bytes of standard error.
_HEAD = re.compile(rb"(\d{1,9}) (-|-?\d{1,3}) (\d{1,9}) (\d{1,9})\n")

OnAnswer = Callable[[int, int | None, bytearray, bytearray], None]
"""Gets an answer: its number, its exit status or None, what it wrote, its errors."""


class AgentOutput(asyncio.Protocol):
    """Splits a stream into lines up to the mark, and into answers after it.

    Args:
        asked: the numbers of the requests that wait.
        on_answer: gets each answer that is whole.
        on_end: is called once: the stream ended, or (True) is not the agent's.
        most_bytes: of all answers.
    """

    def __init__(
        self,
        asked: Container[int],
        on_answer: OnAnswer,
        on_end: Callable[[bool], None],
        most_bytes: float,
    ) -> None:
        self._asked, self._on_answer, self._on_end = asked, on_answer, on_end
        self._most_bytes = most_bytes
        self._data = bytearray()
        self._read = 0
        self._received = 0
        self._mark: tuple[bytes, asyncio.Future[bool]] | None = None
        self._answers = self._over = False

    def await_mark(self, mark: bytes, *, last: bool) -> asyncio.Future[bool]:
        """Return a future of whether the line that is the mark comes before the end.

        Answers follow the last mark.
        """
        found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._mark, self._last = (mark, found), last
        if self._over:
            found.set_result(False)
        else:
            self._parse()
        return found

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        if not self._over:
            self._data += data
            self._parse()

    def connection_lost(self, _error: Exception | None) -> None:
        """Note the end."""
        self._end(is_odd=False)

    def _end(self, *, is_odd: bool) -> None:
        if not self._over:
            self._over = True
            self._data.clear()
            self._on_end(is_odd)
            if self._mark is not None and not self._mark[1].done():
                self._mark[1].set_result(False)

    def _parse(self) -> None:
        try:
            if not self._answers:
                self._find_mark()
            while self._answers and self._find_answer():
                pass
        except ValueError:
            self._end(is_odd=True)
            return
        del self._data[: self._read]
        self._read = 0

    def _find_mark(self) -> None:
        while self._mark is not None:
            end = self._data.find(b"\n", self._read)
            if end < 0:
                break
            line, self._read = bytes(self._data[self._read : end]), end + 1
            mark, found = self._mark
            if line.rstrip() == mark:
                self._mark, self._answers = None, self._last
                if not found.done():
                    found.set_result(True)
        if not self._answers and len(self._data) - self._read > _MOST_LINE_BYTES:
            raise ValueError(_MOST_LINE_BYTES)

    def _find_answer(self) -> bool:
        """Pass on the next answer; say whether it was whole."""
        data, start = self._data, self._read
        end = data.find(b"\n", start, start + _MOST_HEAD_BYTES) + 1
        if not end:
            if len(data) - start >= _MOST_HEAD_BYTES:
                raise ValueError(_MOST_HEAD_BYTES)
            return False
        head = _HEAD.fullmatch(data, start, end)
        if head is None:
            raise ValueError(end)
        number, out, err = int(head[1]), int(head[3]), int(head[4])
        if number not in self._asked or out > _MOST_STREAM_BYTES or err > _MOST_STREAM_BYTES:
            raise ValueError(number)
        if self._received + out + err > self._most_bytes:
            raise ValueError(out + err)
        middle, last = end + out, end + out + err
        if len(data) < last:
            return False
        self._received += out + err
        self._read = last
        status = None if head[2] == b"-" else int(head[2])
        self._on_answer(number, status, data[end:middle], data[middle:last])
        return True


class ErrorOutput(asyncio.Protocol):
    """Keeps the last that ssh, the shell and sudo said.

    Args:
        on_more: is called when there is more.

    Attributes:
        said: the last bytes of the error output.
    """

    def __init__(self, on_more: Callable[[], None]) -> None:
        self.said = bytearray()
        self._on_more = on_more
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self.said = (self.said + data)[-_MOST_SAID_BYTES:]
        self._on_more()

    def connection_lost(self, _error: Exception | None) -> None:
        """Note the end."""
        if not self._ended.done():
            self._ended.set_result(None)

    async def await_end(self, limit_s: float) -> None:
        """Wait until nothing more will be said, for a time."""
        await asyncio.wait([self._ended], timeout=limit_s)
