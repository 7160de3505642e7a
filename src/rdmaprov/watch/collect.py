"""Ask all nodes each second, over one connection each, until the time is up or a signal comes."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rdmaprov.boundary import OddAnswer, parse_answer
from rdmaprov.errors import UsageError
from rdmaprov.kernel_log.during import ANSWER, ASKED
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NoAnswer, NodeError, NodeUnreachable
from rdmaprov.probe.patience import Patience
from rdmaprov.probe.probe import allow_files
from rdmaprov.probe.script import node_script
from rdmaprov.probe.session import Limits, most_connections
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Ways, open_node
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.node_account import NodeAccount

PROGRAM = Path(__file__).parent / "node" / "counters.py"
EVERY_S = 1.0
# Reading a NIC that hangs in its firmware takes longer; the node counts as silent then.
ANSWER_S = 5.0
LOG_S = 10.0  # of the kernel, once: it holds up the end of a watch
OPEN_S = 20.0  # finds all devices and counters first
# Between two tries to connect: a node boots in minutes, and a try costs a key exchange.
AGAIN_S = 5.0
# Counters that cannot be read are looked for anew: a driver that was loaded again has new files.
LOOK_AGAIN_S = 5.0
MOST_AGAIN_S = 60.0
# What must be there before the time begins: a connection, or the reason why there is none.
FIRST_S = 60.0
# A connection refuses more than 64 MiB; a busy node of eight rails says 2 kB a second.
RENEW_BYTES = 32 << 20
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ = Command("read", ANSWER_S)


class CounterLink(Protocol):
    """A connection to the program on a node; probe's Connection is one."""

    def send(self, command: Command) -> asyncio.Future[Answer]:
        """Ask; return a future for the answer."""

    def close(self) -> None:
        """End it."""


Connect = Callable[[str], Awaitable[CounterLink]]


class Connector:
    """Connects to nodes, with the program at the other end, straight or by their relays."""

    def __init__(self, targets: Mapping[str, Target | NodeError]) -> None:
        self.ways = Ways(targets, Limits().opening)
        self._targets = targets
        self._source = node_script(PROGRAM)

    async def __call__(self, name: str) -> CounterLink:
        """Return a connection to a node; raise NodeError if there is none."""
        target = self._targets[name]
        if isinstance(target, NodeError):
            raise type(target)(target.message, target.hint)
        return await open_node(target, self._source, Patience(), self.ways)


class Collector:
    """Fills the accounts of nodes.

    Args:
        accounts: by node.
        on_look: is called each second, with the seconds since the watch began.
    """

    def __init__(
        self,
        accounts: Mapping[str, NodeAccount],
        connect: Connect,
        on_look: Callable[[float], None] = lambda _now: None,
    ) -> None:
        self._accounts = accounts
        self._connect = connect
        self._on_look = on_look
        self._ways = connect.ways if isinstance(connect, Connector) else None
        self._began = time.monotonic()
        self._unheard = set(accounts)
        self._links: dict[str, CounterLink] = {}
        self.was_interrupted = False

    @property
    def seconds(self) -> float:
        """Return the seconds since the watch began."""
        return time.monotonic() - self._began

    def run(self, seconds: float | None) -> None:
        """Watch for this long after all nodes answered or failed once; None: until a signal.

        Raises:
            UsageError: the limit of open files is too low for all nodes.
        """
        count = len(self._accounts)
        if (most := most_connections(count)) < count:
            what = f"watch keeps a connection to each of {count:,} nodes; --connections is {most:,}"
            raise UsageError(what, "Pass more, or select nodes with --limit")
        needed = self._ways.processes if self._ways else count
        if (most := allow_files(needed)) < needed:
            raise UsageError(
                f"{count:,} nodes need more open files than allowed: enough for {most:,}",
                "Raise it (ulimit -n), or select nodes with --limit",
            )
        asyncio.run(self._run(seconds))

    async def _run(self, seconds: float | None) -> None:
        self._opening = asyncio.Semaphore(Limits().opening)
        self._stopped, self._begun = asyncio.Event(), asyncio.Event()
        tasks: list[asyncio.Task[object]] = [
            asyncio.create_task(self._watch(name)) for name in self._accounts
        ]
        tasks += [asyncio.create_task(self._look()), asyncio.create_task(self._stopped.wait())]
        begun = asyncio.create_task(self._begun.wait())
        try:
            with self._signals():
                await _first([begun, *tasks], FIRST_S)
                await _first(tasks, seconds)
                await asyncio.gather(*map(self._read_log, [*self._links]))
        finally:
            for task in (begun, *tasks):
                task.cancel()
            await asyncio.gather(begun, *tasks, return_exceptions=True)
            if self._ways is not None:
                self._ways.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Have a signal to stop end the watch, with all that it knows."""
        loop = asyncio.get_running_loop()
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        taken = [number for number, was in before.items() if was is not signal.SIG_IGN]
        for number in taken:
            loop.add_signal_handler(number, self._interrupt)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)
                signal.signal(number, before[number])

    def _interrupt(self) -> None:
        self.was_interrupted = True
        self._stopped.set()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self._on_look(self.seconds)

    async def _watch(self, name: str) -> None:
        account, wait_s = self._accounts[name], AGAIN_S
        while True:
            before = account.answers
            try:
                await self._talk(account)
                continue  # it has said a lot, and is asked on over a new connection
            except NodeError as error:
                account.lost = error
            except OddAnswer as error:
                hint = "Check what python3 is there, and its shell"
                account.lost = NoAnswer(f"{name}: {error}", hint)
            self._hear(name)
            wait_s = AGAIN_S if account.answers > before else min(2 * wait_s, MOST_AGAIN_S)
            await asyncio.sleep(wait_s)

    def _hear(self, name: str) -> None:
        self._unheard.discard(name)
        if not self._unheard:
            if not self._begun.is_set() and all(each.lost for each in self._accounts.values()):
                self._stopped.set()  # there is nobody to watch
            self._begun.set()

    async def _talk(self, account: NodeAccount) -> None:
        """Connect, and ask for as long as it answers; return when it has said a lot."""
        async with self._opening:  # of names, too: a thousand at once wait for each other
            link = await self._connect(account.node.name)
            try:
                said = await self._open(account, link)
            except BaseException:
                link.close()
                raise
        self._links[account.node.name] = link
        try:
            await self._ask_on(account, link, said)
        finally:
            del self._links[account.node.name]
            link.close()

    async def _read_log(self, name: str) -> None:
        """Ask a node what its kernel has logged since the watch began."""
        given = json.dumps({"seconds": self.seconds, **ASKED}).encode()
        account = self._accounts[name]
        try:
            out = await self._ask(account, self._links[name], Command("log", LOG_S, given))
            said = parse_answer(out, ANSWER)
            account.log, account.log_lacks = said["log"], said["lacks"]
        except (NodeError, OddAnswer) as error:
            account.log_lacks = str(error)

    async def _ask_on(self, account: NodeAccount, link: CounterLink, said: int) -> None:
        opened = due = time.monotonic()
        while said < RENEW_BYTES:
            due = max(due + EVERY_S, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
            out = await self._ask(account, link, _READ)
            account.add(parse_steps(out, len(account.keys)), self.seconds)
            said += len(out)
            if account.gone and time.monotonic() - opened > LOOK_AGAIN_S:
                said += await self._open(account, link)
                opened = time.monotonic()

    async def _open(self, account: NodeAccount, link: CounterLink) -> int:
        rails = [rail.described for rail in account.node.rails]
        given = json.dumps({"rails": rails}).encode()
        out = await self._ask(account, link, Command("open", OPEN_S, given))
        account.start(parse_names(out, len(rails)), self.seconds)
        self._hear(account.node.name)
        return len(out)

    @staticmethod
    async def _ask(account: NodeAccount, link: CounterLink, command: Command) -> str:
        future = link.send(command)
        try:
            async with asyncio.timeout(command.limit_s):
                return (await future).out  # which is cancelled with this task
        except TimeoutError:
            what = f"{account.node.name}: its counters were not read in {command.limit_s:g} s"
            hint = "The node or a NIC may hang: check its console"
            raise NodeUnreachable(what, hint) from None


async def _first(tasks: Sequence[asyncio.Task[object]], limit_s: float | None) -> None:
    """Wait until one is done; raise what it raised, which is no node's fault, but a mistake."""
    done, _ = await asyncio.wait(tasks, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
