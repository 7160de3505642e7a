"""The files of a stranger's site: which are read, and what is refused without being opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rdmaprov.inventory.site_files import IGNORED, VARIABLE_DIRECTORIES, YAML_SUFFIXES, file_problem
from rdmaprov.inventory.untrusted import limits
from rdmaprov.problem import CONTROL, Problem
from rdmaprov.words import quantity

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254}", re.ASCII)
_CONTROL = re.compile(f"[{CONTROL}\ufeff]")
_KINDS = (
    (stat.S_ISLNK, "is a link", "put the file itself in its place"),
    (stat.S_ISFIFO, "is a FIFO, not a file", "remove it"),
    (stat.S_ISSOCK, "is a socket, not a file", "remove it"),
    (stat.S_ISBLK, "is a device, not a file", "remove it"),
    (stat.S_ISCHR, "is a device, not a file", "remove it"),
)


class TooMuch(Exception):
    """A limit is exceeded, so nothing more is read; has the problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass
class Tree:
    """What a site's directory has.

    Attributes:
        inventory: the files that say which hosts there are, in Ansible's order.
        variables: the files below group_vars and host_vars.
        problems: what is refused.

    """

    inventory: list[Path] = field(default_factory=list)
    variables: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def walk(site: Path) -> Tree:
    """Return the files of a site; opens none.

    Raises:
        TooMuch: there are too many, or they are too large.
        OSError: a directory cannot be read.

    """
    tree = Tree()
    total = 0
    for count, entry in enumerate(_entries(site, 0), start=1):
        path = Path(entry.path)
        if count > limits.MOST_FILES:
            most = quantity(limits.MOST_FILES, "file")
            raise TooMuch(file_problem(site, 1, f"the site has more than {most}", "write fewer"))
        inside = path.relative_to(site).parts
        if wrong := _refusal(entry, inside):
            tree.problems.append(file_problem(path, 1, *wrong))
        elif entry.is_file(follow_symlinks=False) and not IGNORED.search(entry.name):
            total += entry.stat(follow_symlinks=False).st_size
            if total > limits.MOST_SITE_BYTES:
                message = f"the site has more than {limits.MOST_SITE_BYTES:,} bytes"
                raise TooMuch(file_problem(path, 1, message, "write less"))
            below = inside[0] in VARIABLE_DIRECTORIES
            (tree.variables if below else tree.inventory).append(path)
    return tree


def _entries(directory: Path, depth: int) -> Iterator[os.DirEntry[str]]:
    """Yield what is in a directory and below it, but below nothing that Ansible ignores."""
    with os.scandir(directory) as found:
        # As many as may be read, and one to be refused: a directory can have millions.
        entries = [entry for entry, _ in zip(found, range(limits.MOST_FILES + 1), strict=False)]
    for entry in sorted(entries, key=lambda each: each.name):
        yield entry
        if not entry.is_dir(follow_symlinks=False) or entry.name.startswith("."):
            continue
        is_read = entry.name in VARIABLE_DIRECTORIES or depth
        if is_read and depth < limits.MOST_DIRECTORIES_DEEP:
            yield from _entries(Path(entry.path), depth + 1)


def _refusal(entry: os.DirEntry[str], inside: tuple[str, ...]) -> tuple[str, str] | None:
    """Return what is wrong with an entry of a directory, and what to do."""
    mode = entry.stat(follow_symlinks=False).st_mode
    for is_kind, message, remedy in _KINDS:
        if is_kind(mode):
            return message, remedy
    if IGNORED.search(entry.name) and entry.name != "ansible.cfg":
        return None
    if not _NAME.fullmatch(entry.name):
        return "is no safe file name", "use letters, digits, dots, hyphens and underscores"
    if stat.S_ISDIR(mode):
        return _directory_refusal(inside)
    if len(inside) == 1:
        return _top_refusal(entry.name, mode)
    is_host = len(inside) == 2 and inside[0] == "host_vars"  # host_vars/gpu1.example.com
    if not is_host and Path(entry.name).suffix not in ("", *YAML_SUFFIXES):
        return "Ansible does not read this file", f"rename it to {Path(entry.name).stem}.yml"
    return None


def _directory_refusal(inside: tuple[str, ...]) -> tuple[str, str] | None:
    if len(inside) == 1 and inside[0] not in VARIABLE_DIRECTORIES:
        return "is a directory that --untrusted does not read", "use group_vars and host_vars"
    if len(inside) > limits.MOST_DIRECTORIES_DEEP:
        return "is too deep", f"use at most {limits.MOST_DIRECTORIES_DEEP} directories"
    if len(inside) > 2 and "." in inside[-1]:
        return "is a directory that Ansible does not read", "remove the dot from its name"
    if len(inside) == 2 and inside[1].endswith(YAML_SUFFIXES):
        return "is a directory with the name of a file", "remove the suffix from its name"
    return None


def _top_refusal(name: str, mode: int) -> tuple[str, str] | None:
    if name == "ansible.cfg":
        return "can make Ansible run code", "remove it; settings do not belong to a site"
    if not name.endswith(YAML_SUFFIXES):
        return "is not YAML, and Ansible may run it", "write the hosts into hosts.yml"
    if mode & 0o111:
        return "is executable, and Ansible would run it", f"run: chmod a-x {name}"
    return None


def read_text(path: Path) -> str:
    """Return a file's text.

    Raises:
        TooMuch: it is no text that is read; has the reason.

    """
    data = _read(path)
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise TooMuch(_wrong(path, 1, 1, "the file begins with a byte order mark"))
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise TooMuch(_wrong(path, line, column, message)) from error
    text = text.replace("\r\n", "\n")
    if found := _CONTROL.search(text):
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        code = f"U+{ord(found[0]):04X}"
        raise TooMuch(_wrong(path, line, column, f"the file has the control character {code}"))
    return text


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise TooMuch(file_problem(path, 1, message, "let your user read it")) from error
    most = limits.MOST_FILE_BYTES
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # it was a file when the site was listed
            raise TooMuch(file_problem(path, 1, "is no regular file", "remove it"))
        # Read in any case: a file of /proc has no size.
        data = b"" if status.st_size > most else stream.read(most + 1)
    if status.st_size > most or len(data) > most:
        remedy = "write each host's variables into host_vars/HOST.yml"
        raise TooMuch(file_problem(path, 1, f"the file has more than {most:,} bytes", remedy))
    return data


def _wrong(path: Path, line: int, column: int, message: str) -> Problem:
    return file_problem(path, line, message, "save the file as plain UTF-8 text", column=column)
