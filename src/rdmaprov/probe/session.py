"""One node over the length of a run: its connection, and what it was asked."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from rdmaprov.errors import UsageError
from rdmaprov.probe.batch import Batch
from rdmaprov.probe.connection import Answer, Command, Connection
from rdmaprov.probe.errors import NodeError, NodeUnreachable, RelayLost
from rdmaprov.probe.patience import Patience
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Ways, open_node, way_of

# Behind a command's own limit, which the agent keeps: then the node itself is stuck.
_GRACE_S = 5

T = TypeVar("T")
CONNECTIONS = "RDMAPROV_CONNECTIONS"  # what --connections sets, for pytest's workers, too


def most_connections(usual: int = 1024) -> int:
    """Return how many connections may be open at a time; `usual` where the user does not say.

    Raises:
        UsageError: the environment has no number.
    """
    given = os.environ.get(CONNECTIONS, "")
    if given and not (given.isdecimal() and int(given)):
        raise UsageError(f"{CONNECTIONS} is no number of connections: {given}", "Write 1 or more")
    return int(given or usual)


@dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds, and how many nodes at a time; see also Patience.

    Args:
        command_s: one command, unless it brings its own limit.
        node_s: all commands that are fetched from a node at once.
        opening: connections that are being opened at most by one way, which is from here or by
            one relay; each costs a key exchange. They become fewer while logins are dropped.
        open: connections that are open by one way; each is a process of ssh's. If it has more
            nodes, a connection is closed after its answers.
    """

    command_s: float = 20
    node_s: float = 120
    opening: int = 32
    open: int = field(default_factory=most_connections)


@dataclass(frozen=True)
class Shared:
    """What the sessions of nodes share that have one way; see Ways.

    Args:
        stays: whether a connection stays open when its answers are there.
        acts: whether what is asked may act, so that no other relay may ask it again.
    """

    limits: Limits
    source: bytes
    stays: bool
    ways: Ways
    open: asyncio.Semaphore
    is_patient: bool
    acts: bool


class Session:
    """One node. Its coroutines run in the loop's thread; `known` belongs to the other one."""

    def __init__(self, name: str, target: Target | NodeError, shared: Shared) -> None:
        self.known: dict[str, Answer | NodeError | Batch] = {}
        self._name = name
        self._target = target
        self._shared = shared
        self._patience = Patience(is_spent=not shared.is_patient)
        self._connecting: asyncio.Task[Connection] | None = None
        self._spare = len(way_of(target)[1:])
        self._users = 0
        self._fetching = 0
        self._is_counted = False

    async def connect(self) -> Connection:
        """Return the connection; a node that could not be reached is not tried again.

        Raises:
            NodeError: there is none, with the reason.
        """
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open())
        return await asyncio.shield(self._connecting)

    async def _open(self) -> Connection:
        if isinstance(self._target, NodeError):
            raise self._target
        await self._shared.open.acquire()
        self._is_counted = True
        try:
            shared = self._shared
            return await open_node(self._target, shared.source, self._patience, shared.ways)
        except NodeError as error:
            # A new one, without the frames that have the connection and its buffers.
            why = type(error)(error.message, error.hint)
        self._uncount()
        raise why

    def _uncount(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._shared.open.release()

    @property
    def lost(self) -> NodeError | None:
        """Return why the node could not be reached; None if it was, or if nobody knows yet."""
        task = self._connecting
        if task is None or not task.done() or task.cancelled():
            return None
        error = task.exception()
        return error if isinstance(error, NodeError) else None

    async def ask(self, command: Command) -> Answer:
        """Return a command's answer, run now; raise NodeError if there is none."""
        return await self._over(partial(self._ask, command))

    async def _ask(self, command: Command, connection: Connection) -> Answer:
        limit, more = command.limit_s + _GRACE_S, command.limit_s
        if self._fetching:
            limit += self._shared.limits.node_s
            more += self._shared.limits.node_s
        future = connection.send(command)
        if vain := await self._patience.wait(future, limit, more):
            connection.fail(self._stuck(f"no answer in {vain}: {command.label}"))
        return await future

    async def fetch(self, batch: Batch) -> None:
        """Fill a batch with answers, or with the reasons why there are none."""
        limit = max(command.limit_s + _GRACE_S for command in batch.commands)
        limit = max(limit, self._shared.limits.node_s)
        try:
            await self._over(partial(self._fetch, batch, limit))
        except NodeError as error:
            batch.fail(error)
        finally:
            batch.fail(NodeUnreachable("the run has ended", ""))

    async def _fetch(self, batch: Batch, limit_s: float, connection: Connection) -> None:
        self._fetching += 1
        try:
            if late := await batch.ask(connection, limit_s, self._patience):
                connection.fail(self._stuck(late))
        finally:
            self._fetching -= 1

    async def _over(self, do: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something over the connection; raise NodeError if there is none.

        Where not all can stay open, it is closed behind its last user. One that failed is not
        opened again, but by another relay: whatever is asked later gets the same reason.
        """
        self._users += 1
        try:
            while True:
                connection = await self.connect()
                try:
                    return await do(connection)
                except RelayLost:
                    if not self._moves(connection):
                        raise
        finally:
            self._users -= 1
            if not (self._shared.stays or self._users):
                self._rest()

    def _moves(self, lost: Connection) -> bool:
        """Return whether another relay is asked, where a connection's own was lost."""
        if self._connection is lost and self._spare and not self._shared.acts:
            self._spare -= 1
            lost.close()
            self._uncount()
            self._connecting = None
        return self._connection is not lost

    def _rest(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if not connection.has_failed:
            self._connecting = None
        connection.close()
        self._uncount()

    @property
    def _connection(self) -> Connection | None:
        """Return the connection once it was opened."""
        task = self._connecting
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    def _stuck(self, what: str) -> NodeUnreachable:
        hint = self._target.may_hang if isinstance(self._target, Target) else ""
        return NodeUnreachable(f"{self._name}: {what}", hint)

    def stop(self) -> None:
        """Have the connection end."""
        if self._connection is not None:
            self._connection.stop()

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            self._connection.close()
        if self._connecting is not None:
            self._connecting.cancel()


def sessions(
    targets: Mapping[str, Target | NodeError],
    source: bytes,
    limits: Limits,
    ways: Ways,
    is_patient: bool,
    acts: bool,
) -> dict[str, Session]:
    """Return a session for each node, by name."""
    shared = {
        way: Shared(limits, source, count <= limits.open, ways, open_, is_patient, acts)
        for way, count in ways.counts.items()
        for open_ in [asyncio.Semaphore(limits.open)]
    }
    return {name: Session(name, each, shared[way_of(each)]) for name, each in targets.items()}


async def fetch_all(batches: Sequence[tuple[Session, Batch]]) -> None:
    """Fill each node's batch, all at the same time."""
    await asyncio.gather(*(node.fetch(batch) for node, batch in batches))


async def open_all(nodes: Sequence[Session]) -> None:
    """Connect to all nodes; an unreachable one reports that when it is asked."""
    await asyncio.gather(*(node.connect() for node in nodes), return_exceptions=True)


async def close_all(nodes: Sequence[Session], ways: Ways) -> None:
    """End all connections and everything that still waits for one."""
    for node in nodes:
        node.stop()  # all at once; then each is waited for
    for node in nodes:
        node.close()
    ways.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
