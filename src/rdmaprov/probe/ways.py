"""The ways to a fleet's nodes: straight from here, or over one connection to each relay."""

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import groupby
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from rdmaprov.probe.connection import Command, Connection, open_as, open_connection
from rdmaprov.probe.errors import LoginDropped, NodeError, NodeSilent, RelayLied, RelayLost
from rdmaprov.probe.link import SshLink, start_here
from rdmaprov.probe.opening import Opening
from rdmaprov.probe.patience import Patience, in_words
from rdmaprov.probe.target import Target
from rdmaprov.probe.window import waits_s

FORWARD = Path(__file__).with_name("forward.py")
# Before a relay that was lost is tried again: `watch` asks for its nodes all the time.
_AGAIN_S = 5.0
# What several nodes get goes to their relay once: what is worth it, and what is kept there.
_LEAST_SHARED, _MOST_SHARED = 1024, 32 << 20
_APART = 16384  # parts of this size go alone, so that what is the same in them is seen
_MOST_SEEN = 1 << 16
_FORWARDED = Command("ssh", 0)
Opened = TypeVar("Opened", bound=Connection)


def way_of(target: Target | NodeError) -> tuple[Target, ...]:
    """Return the relays of a node, none if it is reached from here."""
    return target.relays if isinstance(target, Target) else ()


@dataclass(frozen=True)
class Takeover:
    """A relay that is asked in the place of another one, and what became of that."""

    relay: str
    by: str
    why: str

    @property
    def text(self) -> str:
        """Return it for a person."""
        return f"{self.by} stands in for {self.relay}: {self.why}"


def relays_data(taken: Iterable[Takeover]) -> dict[str, Any]:
    """Return what results.json has of relays that were asked in the place of others."""
    found = [asdict(each) for each in taken]
    return {"relays": found} if found else {}


class Ways:
    """How a fleet's nodes are reached, each relay over a connection that opens when needed.

    Of a node's relays, the first one serves it that is not lost. None stands in for one that lied:
    a good result would hide it.

    Args:
        targets: the nodes.
        opening: connections that are being opened at a time by each way.

    Attributes:
        counts: nodes by their relays.
        taken: by a relay, and which one is asked in its place.
    """

    def __init__(self, targets: Mapping[str, Target | NodeError], opening: int) -> None:
        self.counts = Counter(map(way_of, targets.values()))
        self.taken: dict[tuple[str, str], Takeover] = {}
        self._openings = defaultdict[tuple[Target, ...], Opening](lambda: Opening(opening))
        self._relays: dict[Target, _Way] = {}

    @property
    def processes(self) -> int:
        """Return how many processes of ssh are here when all nodes are connected to."""
        return self.counts[()] + len({relay for way in self.counts for relay in way})

    def opening(self, target: Target) -> Opening:
        """Return what bounds the logins by a node's way."""
        return self._openings[target.relays]

    async def start(self, target: Target, argv: Sequence[str]) -> SshLink:
        """Return ssh to a node, started on a relay if it has one.

        Raises:
            NodeUnreachable: it cannot be started; RelayLost if another relay may.
        """
        if not target.relays:
            return await start_here(target, argv)
        ways = [self._relays.setdefault(each, _Way(each)) for each in target.relays]
        way = min(ways, key=lambda each: each.lost_s)
        if (why := ways[0].failure) is not None and way is not ways[0]:
            names = ways[0].name, way.name
            self.taken[names] = Takeover(*names, str(why).removeprefix(f"{names[0]}: "))
        try:
            connection = await way.connect()
            return connection.start_node(argv)
        except NodeError as error:
            raise error.of_relay(target.name) from None

    def close(self) -> None:
        """End the connections to relays."""
        for way in self._relays.values():
            way.close()


async def open_node(target: Target, source: bytes, patience: Patience, ways: Ways) -> Connection:
    """Return a connection to a node; where ssh gave up on a silent node, from another try.

    Nothing was asked yet, so nothing is done twice. How many connections are being opened is
    bounded by the way; nodes that wait for their first try come before the second one of others.
    Where a relay is lost meanwhile, the next one tries.

    Raises:
        NodeError: there is none, with the reason.
    """

    def connect() -> Awaitable[Connection]:
        return open_connection(target, source, patience, ways.start)

    for _ in target.relays[1:]:
        with suppress(RelayLost):
            return await _open_patiently(target.connect_s, patience, ways.opening(target), connect)
    return await _open_patiently(target.connect_s, patience, ways.opening(target), connect)


async def _open_patiently(
    limit: float, patience: Patience, opening: Opening, connect: Callable[[], Awaitable[Opened]]
) -> Opened:
    try:
        return await _open_again(opening, connect)
    except NodeSilent as error:
        if patience.is_spent:
            raise NodeSilent(f"{error.message} in {in_words(limit)}", error.hint) from None
    patience.is_spent = True  # unless there is a connection now
    try:
        connection = await _open_again(opening, connect)
    except NodeSilent as error:
        raise NodeSilent(f"{error.message} in {in_words(limit, limit)}", error.hint) from None
    patience.is_spent = False
    return connection


async def _open_again(opening: Opening, connect: Callable[[], Awaitable[Opened]]) -> Opened:
    """Return a connection, opened again while logins are dropped and there are tries left."""
    waits, began = waits_s(), 0
    while True:
        try:
            async with opening as began:
                return await connect()
        except LoginDropped:
            opening.window.shrink(began)
            if (wait_s := next(waits, None)) is None:
                raise
        await asyncio.sleep(wait_s)


class _Way:
    """A relay, and the connection to it."""

    def __init__(self, relay: Target) -> None:
        self.name = relay.name
        self._relay = relay
        self._opened: asyncio.Task[_RelayConnection] | None = None
        self._again_s = 0.0

    async def connect(self) -> "_RelayConnection":
        """Return the connection; one that was lost is opened again, a relay that lied is not.

        Raises:
            NodeError: there is none, with the reason.
        """
        if self._opened is None or (self.lost_s and time.monotonic() > self._again_s):
            self._opened = asyncio.create_task(self._open())
        return await asyncio.shield(self._opened)

    @property
    def lost_s(self) -> float:
        """Return when one that was lost may be tried again, 0 for one that was not."""
        return self._again_s if self.failure is not None else 0.0

    @property
    def failure(self) -> BaseException | None:
        """Return why it is lost; None if it is not, or has lied."""
        connection, task = self._connection, self._opened
        if connection is not None:
            return connection.failure
        return task.exception() if task and task.done() and not task.cancelled() else None

    @property
    def _connection(self) -> "_RelayConnection | None":
        task = self._opened
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def _open(self) -> "_RelayConnection":
        patience, source = Patience(), FORWARD.read_bytes()

        def connect() -> Awaitable[_RelayConnection]:
            return open_as(_RelayConnection, self._relay, source, patience)

        try:
            return await _open_patiently(self._relay.connect_s, patience, Opening(1), connect)
        finally:
            self._again_s = time.monotonic() + _AGAIN_S

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
        if self._opened is not None:
            self._opened.cancel()


class _RelayConnection(Connection):
    """A connection with `forward.py` at its other end; an answer of it is a part of a node's.

    Attributes:
        has_lied: whether the relay sent what is no answer for a node that was asked over it.
    """

    most_bytes = inf  # the link of each node has its own bound
    has_lied = False

    def __init__(
        self, target: Target, mark: str, link: SshLink, patience: Patience | None = None
    ) -> None:
        super().__init__(target, mark, link, patience)
        self._links: dict[int, _RelayedLink] = {}
        self._seen: set[int] = set()
        self._shared: dict[bytes, int] = {}
        self._shared_bytes = 0

    @property
    def failure(self) -> NodeError | None:
        """Return why it is lost, None if it is there or has lied."""
        return None if self.has_lied else self._failure

    def start_node(self, argv: Sequence[str]) -> SshLink:
        """Return a program that is started on the relay.

        Raises:
            NodeError: the relay is lost.
        """
        if self._failure is not None:
            raise self._failure
        number = next(self._ids)
        link = self._links[number] = _RelayedLink(self, number)
        self._waiting[number] = _FORWARDED, link.lose
        self.ask(number, "start", b"\0".join(map(os.fsencode, argv)))
        return link

    def ask(self, number: int, what: str, data: bytes) -> None:
        """Have the relay do something; see forward.py."""
        self._say(f"{number} {what} {len(data)}\n".encode(), data)

    def pass_on(self, number: int, parts: Sequence[bytes]) -> None:
        """Have a program read something; what several read is sent once."""
        for data in _chunks(parts):
            if self._is_kept(data):
                self._say(f"{number} use {self._shared[data]}\n".encode())
            else:
                self.ask(number, "write", data)

    def _is_kept(self, data: bytes) -> bool:
        """Return whether the relay keeps a text; from its second time on it does."""
        if len(data) < _LEAST_SHARED:
            return False
        if data in self._shared:
            return True
        key, room = hash(data), self._shared_bytes + len(data) <= _MOST_SHARED
        if key not in self._seen or not room:
            if len(self._seen) < _MOST_SEEN:
                self._seen.add(key)
            return False
        self._shared_bytes += len(data)
        self._shared[data] = len(self._shared)
        self.ask(self._shared[data], "share", data)
        return True

    def _say(self, *parts: bytes) -> None:
        if self._failure is None:
            self._link.write(parts)

    def _receive(self, number: int, status: int | None, out: bytearray, err: bytearray) -> None:
        link = self._links[number]
        if status is not None:
            del self._links[number], self._waiting[number]
        link.hear(status, out, err)

    def _odd_output(self) -> RelayLied:
        self.has_lied = True
        what = f"{self._target.name}: it sent what is no answer of a node that was asked over it"
        return RelayLied(what, "Nothing more is read from it: check who changed the relay")


class _RelayedLink:
    """ssh to a node as a process of its relay."""

    def __init__(self, relay: _RelayConnection, number: int) -> None:
        self.lost: NodeError | None = None
        self._relay = relay
        self._number = number
        self._status: int | None = None
        self._is_over = False

    async def open(self, output: asyncio.Protocol, errors: asyncio.Protocol) -> None:
        """Have two protocols get what it writes."""
        self._protocols = output, errors

    def write(self, parts: Sequence[bytes]) -> None:
        """Write to it."""
        if not self._is_over:
            self._relay.pass_on(self._number, parts)

    def end_input(self) -> None:
        """Write no more: it ends."""
        if not self._is_over:
            self._relay.ask(self._number, "end", b"")

    def poll(self) -> int | None:
        """Return its exit status, None while it runs."""
        return self._status

    def stop(self) -> None:
        """Have it end, and pass over what it still writes."""
        self.end_input()
        self._is_over = True

    def close(self) -> None:
        """Do nothing: the relay sees it end."""

    def hear(self, status: int | None, out: bytearray, err: bytearray) -> None:
        """Take what it wrote, and how it ended."""
        if self._is_over:
            return
        for protocol, data in zip(self._protocols, (out, err), strict=True):
            if data:
                protocol.data_received(bytes(data))
        if status is not None:
            self._end(status)

    def lose(self, _command: Command, error: object) -> None:
        """Note that the relay is lost."""
        if isinstance(error, NodeError) and not self._is_over:
            self.lost = error
            self._end(None)

    def _end(self, status: int | None) -> None:
        self._status, self._is_over = status, True
        for protocol in self._protocols:
            protocol.connection_lost(None)


def _chunks(parts: Sequence[bytes]) -> Iterator[bytes]:
    """Yield what is written, small parts together; large ones alone, as others have the same."""
    for is_large, group in groupby(parts, lambda part: len(part) >= _APART):
        if is_large:
            yield from group
        elif data := b"".join(group):
            yield data
