"""How many connections are being opened at a time."""

import asyncio
from collections import deque
from types import TracebackType

from rdmaprov.probe.window import Window


class Opening:
    """A bound of connections that are being opened; who waits longest comes first. See Window."""

    def __init__(self, most: int) -> None:
        self.window = Window(most)
        self._now = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> int:
        """Wait for a place; return the window's round."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._admit()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._leave()
            raise
        return self.window.round

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType
    ) -> None:
        """Give the place back."""
        if kind is None:
            self.window.grow()
        self._leave()

    def _leave(self) -> None:
        self._now -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._now < self.window.allowed:
            place = self._waiting.popleft()
            if not place.done():
                self._now += 1
                place.set_result(None)
