"""A node that answers from a record alone: what was not read is unknown, and never absent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from .machine import Access, CommandFailed, Machine, NodeError
from .plan import NotYet, Refused
from .record import command_key

_KINDS = {"NotYet": NotYet, "Refused": Refused}

_PAST = ("subprocess.", "os.", "socket.", "ctypes.dlopen", "shutil.", "tempfile.", "urllib.")
# What imports do: the directories of sys.path, and ctypes' own handle of this process.
_IMPORTS = ("os.listdir", "os.scandir")


def forbid_reading() -> None:
    """Have nothing in this process read or change this machine from now on, but import modules.

    A record comes from a stranger, and a role's code that read past Machine would read the
    machine that replays it.
    """
    imports = (sys.prefix, sys.base_prefix, "/proc/self/fd/")

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = given
            is_import = isinstance(path, str) and path.startswith(imports)
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if isinstance(path, int) or (is_import and not writes):
                return
            raise _unknown(f"open {path} ({mode})")
        if event.startswith(_PAST) and event not in _IMPORTS and given[:1] != (None,):
            raise _unknown(f"{event} {given[:1]}")

    sys.addaudithook(hook)


class Replay(Machine):
    """A node of a record: it answers what was read, and nothing else.

    Args:
        record: as Recorder has it, of the right shape.
    """

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__(record["root"])
        self._record = record
        self._commands = {
            command_key(each["argv"], each.get("stdin", "")): each for each in record["commands"]
        }

    def require_root(self) -> None:
        """Do nothing: who replays a record needs no rights on the node."""

    def own(self, mode: int) -> Access:
        """Return what a file has that the node's own run would leave."""
        return Access(mode, *self._record["user"])

    def exists(self, name: str) -> bool:
        """Return whether a file or a directory was there."""
        return bool(self._fact("exists " + name))

    def is_file(self, name: str) -> bool:
        """Return whether a file was there that is no directory, device or pipe."""
        return bool(self._fact("is_file " + name))

    def read(self, name: str) -> str | None:
        """Return a file's text, None if there was none; raise NodeError if nobody could read it."""
        text: str | None = self._answer("files", name, "read " + name)
        return text

    def names(self, directory: str) -> list[str]:
        """Return the names that were in a directory."""
        return list(self._answer("directories", directory, "names " + directory))

    def real(self, name: str) -> str:
        """Return the name of what a link led to."""
        return str(self._fact("real " + name))

    def mode(self, name: str) -> int | None:
        """Return a file's permission bits."""
        found: int | None = self._fact("mode " + name)
        return found

    def access(self, name: str) -> Access | None:
        """Return who could do what with a file or a link."""
        found = self._fact("access " + name)
        return None if found is None else Access(*found)

    def stamp(self, name: str) -> list[int] | None:
        """Return a file's size, time of change in ns and inode."""
        found: list[int] | None = self._fact("stamp " + name)
        return found

    def has(self, program: str) -> bool:
        """Return whether a program was installed."""
        return bool(self._fact("has " + program))

    def ask(self, what: str, answer: Callable[[], Any]) -> Any:  # noqa: ARG002 - it would read here
        """Return what code of ours found out on the node."""
        return self._fact("ask " + what)

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:  # noqa: ARG002
        """Return what a program printed.

        Raises:
            CommandFailed: it ended with an error.
            NodeError: it did not run to its end, or nobody ran it.
        """
        entry = self._commands.get(command_key(argv, stdin))
        if entry is None:
            raise _unknown(" ".join(argv))
        if entry["exit_code"] is None:
            raise NodeError(entry.get("stderr", ""))
        if entry["exit_code"]:
            raise CommandFailed(argv, entry["exit_code"], entry.get("stderr", ""))
        return str(entry["stdout"])

    def write(self, name: str, text: str, mode: int = 0, access: Access | None = None) -> None:  # noqa: ARG002
        """Refuse to change a node that is not there."""
        raise _unknown(f"what follows from writing {name}")

    def set(self, name: str, value: str) -> None:  # noqa: ARG002
        """Refuse to change a node that is not there."""
        raise _unknown(f"what follows from setting {name}")

    def remove(self, name: str) -> None:
        """Refuse to change a node that is not there."""
        raise _unknown(f"what follows from removing {name}")

    def _fact(self, key: str) -> Any:
        return self._answer("facts", key, key)

    def _answer(self, part: str, name: str, question: str) -> Any:
        if name in self._record[part]:
            return self._record[part][name]
        error = self._record["errors"].get(question)
        raise _unknown(question) if error is None else _error(error)


def _unknown(question: str) -> NodeError:
    return NodeError(f"not in the record: {question}")


def _error(data: list[Any]) -> Exception:
    kind, *rest = data
    if kind == "OSError":
        return OSError(*rest)
    if kind == "CommandFailed":
        failed = CommandFailed([], rest[0], rest[1])
        failed.args = (rest[2],)
        return failed
    return _KINDS.get(kind, NodeError)(rest[0])
