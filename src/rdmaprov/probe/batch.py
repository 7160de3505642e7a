"""Many commands that one node is asked at once, and their answers."""

import asyncio
import threading

from rdmaprov.probe.connection import Answer, Command, Connection
from rdmaprov.probe.errors import NodeError, RelayLost
from rdmaprov.probe.patience import Patience

# A signal that comes just before a thread waits for a lock is seen behind the wait alone: on a busy
# machine an interrupt was lost until the node answered. So no wait is longer than this.
LOOK_S = 0.5


class Batch:
    """A node's answers as they come: one thread fills it, another one waits for what it needs.

    A future for each command, with its lock, took a fifth of a run's processor time.

    Args:
        commands: that are asked; other nodes may share them.
    """

    def __init__(self, commands: tuple[Command, ...]) -> None:
        self.commands = commands
        self._found: dict[str, Answer | NodeError] = {}
        self._more = threading.Condition()
        self._is_awaited = False
        self._whole: asyncio.Future[None] | None = None

    def wait(self, text: str) -> Answer | NodeError:
        """Return what came of a command, once it did."""
        found = self._found.get(text)
        if found is None:
            with self._more:
                self._is_awaited = True
                while (found := self._found.get(text)) is None:
                    self._more.wait(LOOK_S)
                self._is_awaited = False
        return found

    async def ask(self, connection: Connection, limit_s: float, patience: Patience) -> str:
        """Ask what has no answer, and wait; return what has none in time, in words, if some has.

        Raises:
            RelayLost: another relay may ask what is left.
        """
        self._whole = asyncio.get_running_loop().create_future()
        left = self.commands
        if self._found:
            left = tuple(one for one in left if one.text not in self._found)
        connection.request(left, self._put)
        if not (vain := await patience.wait(self._whole, limit_s, limit_s)):
            self._whole.result()
            return ""
        late = len(self.commands) - len(self._found)
        return f"{late} of {len(self.commands)} commands did not answer in {vain}"

    def fail(self, error: NodeError) -> None:
        """Have all commands that have no answer get this error."""
        for command in self.commands:
            if command.text not in self._found:
                self._keep(command.text, error)

    def _put(self, command: Command, found: Answer | NodeError) -> None:
        if not isinstance(found, RelayLost):
            self._keep(command.text, found)
        elif self._whole is not None and not self._whole.done():
            self._whole.set_exception(found)

    def _keep(self, text: str, found: Answer | NodeError) -> None:
        self._found[text] = found
        if self._is_awaited:  # `wait` sets it before it looks once more, so it misses no answer
            with self._more:
                self._more.notify_all()
        whole = self._whole
        if whole is not None and len(self._found) == len(self.commands) and not whole.done():
            whole.set_result(None)
