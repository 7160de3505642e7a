"""A node whose readings are kept, so that `replay` can answer from them. Runs on the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .machine import Access, CommandFailed, Machine, NodeError
from .plan import NotYet, Refused

_KINDS = (NotYet, Refused)


class Recorder(Machine):
    """A node whose readings are kept.

    Attributes:
        record: the readings, as plain JSON. "files": by name, a file's text. "directories": by
            name, the names in it. "commands": each with "argv", "stdout" and "exit_code", and
            "stdin" and "stderr" where there is any. "facts": by question, any other answer.
            "errors": by question, what was raised instead of an answer. "root" and "user": where
            the node's files are, and whose the files are that we write.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.root)
        self._node = machine
        self._asking = False
        mine = machine.own(0)
        self.record: dict[str, Any] = {
            "root": machine.root,
            "user": [mine.user, mine.group],
            "files": {},
            "directories": {},
            "facts": {},
            "errors": {},
            "commands": [],
        }
        self._commands: dict[str, int] = {}

    def path(self, name: str) -> str:
        """Return where a file of the node really is."""
        return self._node.path(name)

    def own(self, mode: int) -> Access:
        """Return what a file has that `write` leaves."""
        return self._node.own(mode)

    def exists(self, name: str) -> bool:
        """Return and keep whether a file or a directory is there."""
        return bool(self._fact("exists " + name, lambda: self._node.exists(name)))

    def is_file(self, name: str) -> bool:
        """Return and keep whether a file is there that is no directory, device or pipe."""
        return bool(self._fact("is_file " + name, lambda: self._node.is_file(name)))

    def read(self, name: str) -> str | None:
        """Return and keep a file's text; see Machine.read."""
        text: str | None = self._tried("read " + name, lambda: self._node.read(name))
        self._keep("files", name, text)
        return text

    def names(self, directory: str) -> list[str]:
        """Return and keep the names in a directory."""
        found: list[str] = self._tried("names " + directory, lambda: self._node.names(directory))
        self._keep("directories", directory, list(found))
        return found

    def real(self, name: str) -> str:
        """Return and keep the name of what a link leads to."""
        return str(self._fact("real " + name, lambda: self._node.real(name)))

    def mode(self, name: str) -> int | None:
        """Return and keep a file's permission bits."""
        found: int | None = self._fact("mode " + name, lambda: self._node.mode(name))
        return found

    def access(self, name: str) -> Access | None:
        """Return and keep who may do what with a file or a link."""
        found = self._tried("access " + name, lambda: self._node.access(name))
        plain = found and [found.mode, found.user, found.group, found.is_link]
        self._keep("facts", "access " + name, plain)
        return found  # type: ignore[no-any-return] # of _tried, which has any answer

    def stamp(self, name: str) -> list[int] | None:
        """Return and keep a file's size, time of change in ns and inode."""
        found: list[int] | None = self._fact("stamp " + name, lambda: self._node.stamp(name))
        return found

    def has(self, program: str) -> bool:
        """Return and keep whether a program is installed."""
        return bool(self._fact("has " + program, lambda: self._node.has(program)))

    def ask(self, what: str, answer: Callable[[], Any]) -> Any:
        """Return and keep what code of ours finds out; what it reads for that is not kept."""
        outer, self._asking = self._asking, True
        try:
            found, error = self._node.ask(what, answer), None
        except (NodeError, OSError) as raised:
            found, error = None, raised
        finally:
            self._asking = outer
        if error is not None:
            self._keep("errors", "ask " + what, _as_data(error))
            raise error
        self._keep("facts", "ask " + what, found)
        return found

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        """Return and keep what a program printed, or how it failed; see Machine.run."""
        entry: dict[str, Any] = {"argv": list(argv), "stdout": "", "exit_code": 0}
        if stdin:
            entry["stdin"] = stdin
        try:
            entry["stdout"] = self._node.run(argv, stdin, timeout_s)
        except CommandFailed as error:
            entry.update(exit_code=error.code, stderr=error.output)
            raise
        except NodeError as error:
            entry.update(exit_code=None, stderr=str(error))
            raise
        finally:
            self._keep_command(command_key(argv, stdin), entry)
        return str(entry["stdout"])

    def _keep_command(self, key: str, entry: dict[str, Any]) -> None:
        if self._asking:
            return
        commands = self.record["commands"]
        if key in self._commands:
            commands[self._commands[key]] = entry
        else:
            self._commands[key] = len(commands)
            commands.append(entry)

    def _fact(self, key: str, answer: Callable[[], Any]) -> Any:
        found = self._tried(key, answer)
        self._keep("facts", key, found)
        return found

    def _tried(self, key: str, answer: Callable[[], Any]) -> Any:
        try:
            return answer()
        except (NodeError, OSError) as error:
            self._keep("errors", key, _as_data(error))
            raise

    def _keep(self, part: str, key: str, value: Any) -> None:
        if not self._asking:
            self.record[part][key] = value


def command_key(argv: list[str], stdin: str) -> str:
    """Return what tells a command from others."""
    return "\0".join([*argv, "", stdin])


def _as_data(error: Exception) -> list[Any]:
    if isinstance(error, CommandFailed):
        return ["CommandFailed", error.code, error.output, str(error)]
    if isinstance(error, OSError):
        return ["OSError", error.errno, error.strerror or ""]
    kind = type(error).__name__ if isinstance(error, _KINDS) else "NodeError"
    return [kind, str(error)]
