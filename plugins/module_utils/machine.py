"""A node, as its roles see it: files, kernel values and programs. Runs on the node."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

COMMAND_TIMEOUT_S = 600
MOST_WORDS = 12  # of a command in a message; our choice


class NodeError(Exception):
    """Something on the node went wrong; the message says what, for the user."""


class CommandFailed(NodeError):
    """A program that had to end well did not."""

    def __init__(self, argv: list[str], code: int, output: str, printed: str = "") -> None:
        self.code = code
        self.output = output.strip()
        self.printed = printed.strip()  # on standard output, besides an error
        super().__init__(f"{_command(argv)}: exit code {code}: {self.output}")


def _command(argv: list[str]) -> str:
    """Return a command line for a message: the beginning of one that lists many names."""
    words = argv if len(argv) <= MOST_WORDS else [*argv[: MOST_WORDS // 2], "…"]
    return " ".join(words)


@dataclass(frozen=True)
class Access:
    """A file's permission bits, the numbers of its user and group, and whether it is a link."""

    mode: int
    user: int
    group: int
    is_link: bool = False

    def __str__(self) -> str:
        """Return it for a message."""
        kind = "a link" if self.is_link else f"mode {self.mode:o}"
        return f"{kind} of {self.user}:{self.group}"


def own(mode: int) -> Access:
    """Return what a file that we write has: it is root's, or the user's who runs a test."""
    user = os.geteuid()
    return Access(mode, user, os.getegid() if user else 0)


class Machine:
    """The node that this process runs on.

    Args:
        root: where its files are; a made-up tree in tests.
    """

    is_image = False  # whether it is the files of an image alone, which does not run

    def __init__(self, root: str = "/") -> None:
        self.root = root
        # Told of each file before `write` or `remove` replaces it: its name, and the new text.
        self.keep: Callable[[str, str | None, Access | None], None] | None = None
        # Told of each step of a plan before it is made, a plan.Step.
        self.note: Callable[[Any], None] | None = None
        self.standing: list[str] = []  # the site's scheduler_standing_processes

    def require_root(self) -> None:
        """Raise NodeError for a user who could neither see nor change all of it."""
        if os.geteuid() != 0:
            raise NodeError("root is required on the node: write ansible_become: true")

    def path(self, name: str) -> str:
        """Return where a file of the node really is."""
        return os.path.join(self.root, name.lstrip("/"))

    def exists(self, name: str) -> bool:
        """Return whether a file or a directory is there."""
        return os.path.exists(self.path(name))

    def read(self, name: str) -> str | None:
        """Return a file's text with the line ends that it has, None if there is no such file.

        Raises:
            NodeError: it is there and cannot be read.
        """
        try:
            path = self.path(name)
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise NodeError(f"{name} cannot be read: {error.strerror}") from error

    def value(self, name: str) -> str | None:
        """Return what a kernel file says, without its line end; None if there is none."""
        text = self.read(name)
        return None if text is None else text.strip()

    def names(self, directory: str) -> list[str]:
        """Return the names in a directory, sorted; none if there is no such directory."""
        try:
            return sorted(os.listdir(self.path(directory)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def real(self, name: str) -> str:
        """Return the name of what a link leads to, as the node sees it."""
        found = os.path.realpath(self.path(name))
        inside = os.path.relpath(found, os.path.realpath(self.root))
        return "/" + inside if self.root != "/" else found

    def mode(self, name: str) -> int | None:
        """Return a file's permission bits, None if there is no such file."""
        try:
            return os.stat(self.path(name)).st_mode & 0o7777
        except (FileNotFoundError, NotADirectoryError):
            return None

    def access(self, name: str) -> Access | None:
        """Return who may do what with a file or a link, None if there is none."""
        try:
            found = os.lstat(self.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        mode = found.st_mode
        return Access(mode & 0o7777, found.st_uid, found.st_gid, stat.S_ISLNK(mode))

    def is_file(self, name: str) -> bool:
        """Return whether a file is there that is no directory, device or pipe."""
        return os.path.isfile(self.path(name))

    def stamp(self, name: str) -> list[int] | None:
        """Return a file's size, time of change in ns and inode; None if there is no such file."""
        try:
            found = os.stat(self.path(name))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return [found.st_size, found.st_mtime_ns, found.st_ino]

    def ask(self, what: str, answer: Callable[[], Any]) -> Any:  # noqa: ARG002 - names it in a record
        """Return what code of ours finds out that reads the node past this class, as plain JSON.

        Args:
            answer: finds out; it may raise NodeError or OSError.
        """
        return answer()

    def own(self, mode: int) -> Access:
        """Return what a file has that `write` leaves."""
        return own(mode)

    def stands(self, name: str, text: str, mode: int = 0o644) -> bool:
        """Return whether a file is as `write` leaves it: its text, mode and owner."""
        return self.access(name) == self.own(mode) and self.read(name) == text

    def has(self, program: str) -> bool:
        """Return whether a program is installed."""
        return shutil.which(program, path=_PATH) is not None

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = COMMAND_TIMEOUT_S) -> str:
        """Return what a program printed.

        Raises:
            CommandFailed: it ended with an error.
            NodeError: it was not installed, or did not end in time.
        """
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": _PATH}
        try:
            done = subprocess.run(
                argv,
                input=stdin,
                capture_output=True,
                text=True,
                errors="replace",
                env=environment,
                timeout=timeout_s,
                check=False,
            )
        except FileNotFoundError as error:
            raise NodeError(f"{argv[0]} is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise NodeError(f"{_command(argv)} timed out after {timeout_s} s") from error
        if done.returncode:
            raise CommandFailed(argv, done.returncode, done.stderr or done.stdout, done.stdout)
        return done.stdout

    def write(self, name: str, text: str, mode: int = 0o644, access: Access | None = None) -> None:
        """Make a file have this text, whole or not at all, also if the machine fails.

        Args:
            access: its owner and its mode; None for root's, with `mode`.

        Raises:
            NodeError: it cannot be written; what stood there still stands.
        """
        path, wanted = self.path(name), access or own(mode)
        if self.keep is not None:
            self.keep(name, text, wanted)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".rdmaprov-", dir=os.path.dirname(path))
            try:
                with open(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(text)
                    file.flush()
                    # A directory with setgid gives its own group to what is made in it.
                    os.fchown(file.fileno(), wanted.user, wanted.group)
                    os.fchmod(file.fileno(), wanted.mode)
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            _sync_directory(os.path.dirname(path))
        except OSError as error:
            raise NodeError(f"{name} cannot be written: {error.strerror}") from error

    def set(self, name: str, value: str) -> None:
        """Write a value into a file of the kernel's.

        Raises:
            NodeError: the kernel refuses it.
        """
        try:
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write(value)
        except OSError as error:
            raise NodeError(f"{name} rejects {value}: {error.strerror}") from error

    def remove(self, name: str) -> None:
        """Make sure that there is no such file."""
        if self.keep is not None and os.path.lexists(self.path(name)):
            self.keep(name, None, None)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(name))


# A login that sudo or a service made may lack sbin.
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _sync_directory(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
