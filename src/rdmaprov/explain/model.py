"""A text as it was given, and what it shows: facts, findings, what it proves, what it lacks."""

from __future__ import annotations

import io
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from rdmaprov.boundary import OddAnswer, parse_file
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding, exit_code
from rdmaprov.nccl_log.reader import PACKED
from rdmaprov.problem import printable

UNREAD = "input.unread"
MOST_BYTES = 32 << 20  # a flight recorder of 2,000 calls with their stacks has 10 MiB
MOST_BYTES_IN_ALL = 256 << 20
STDIN = "-"
HEAD_BYTES = 64 << 10
_MOST_LINE = 2000
_MOST_PARTS = 2_000_000
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True)
class Shown:
    """What a text shows, or several texts that are of one job."""

    input: str  # the id of its row in the table of inputs; empty if no row knows it
    files: tuple[str, ...]
    says: tuple[str, ...] = ()  # facts, one line each
    findings: tuple[Finding, ...] = ()  # what is wrong, and what is unknown
    proves: str = ""  # what is known to be right; empty if nothing is
    lacks: tuple[str, ...] = ()  # what would tell more, one line each
    parsed: tuple[object, ...] = ()  # what was read, for those that join it with other texts

    @property
    def code(self) -> ExitCode:
        """Return 1 if something is wrong, 0 if something is right and nothing unknown, else 4."""
        code = exit_code(self.findings)
        return code if self.findings or self.proves else ExitCode.UNKNOWN


def unread(name: str, what: str, remedy: str) -> Finding:
    """Return that a file, or a part of it, is unknown."""
    return Finding(UNREAD, what, remedy, proven=False, part=name)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return 1 if one of them is, else 4 if one of them is, else 0."""
    from_good_to_bad = (ExitCode.OK, ExitCode.UNKNOWN, ExitCode.FAILED)
    return max(codes, key=from_good_to_bad.index, default=ExitCode.OK)


@dataclass(frozen=True)
class GivenText:
    """A file, or standard input."""

    name: str
    data: bytes  # its first bytes, at most `MOST_BYTES`
    is_whole: bool = True  # whether there are no others
    is_file: bool = False  # whether it can be opened again

    def open(self) -> BinaryIO:
        """Return all of it, from its beginning."""
        return io.BytesIO(self.data) if self.is_whole else Path(self.name).open("rb")

    def light(self) -> GivenText:
        """Return it with its beginning alone, if the rest can be read again."""
        if not self.is_file or len(self.data) <= HEAD_BYTES:
            return self
        return replace(self, data=self.data[:HEAD_BYTES], is_whole=False)

    def lines(self) -> Iterator[str]:
        """Yield its lines without their ends, and of a long one the beginning."""
        for line in io.BytesIO(self.data):
            yield line[:_MOST_LINE].decode(errors="replace").rstrip()

    @property
    def text(self) -> str:
        """Return it as text."""
        return self.data.decode(errors="replace")

    @cached_property
    def document(self) -> dict[str, Any]:
        """Return its JSON, empty if it is no mapping in JSON."""
        if self.data.lstrip()[:1] != b"{":
            return {}
        try:
            found = parse_file(self.data, _MOST_PARTS)
        except OddAnswer:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def unpack(self) -> str:
        """Return the program that unpacks it, empty if it is not compressed."""
        return next((tool for magic, tool in PACKED.items() if self.data.startswith(magic)), "")


def read_given(name: str) -> GivenText:
    """Return a file by its name, or raise UsageError; `-` is standard input."""
    if name == STDIN:
        return _make("standard input", sys.stdin.buffer)
    shown = printable(name)
    try:
        with Path(name).open("rb") as stream:
            is_file = stat.S_ISREG(Path(name).stat().st_mode)
            return _make(name, stream, can_go_on=is_file)
    except IsADirectoryError:
        raise UsageError(f"{shown}: is a directory", f"Pass the files in it: {shown}/*") from None
    except FileNotFoundError:
        raise UsageError(f"{shown}: no such file", "Pass logs, tables or dumps.") from None
    except PermissionError:
        raise UsageError(f"{shown}: permission denied", "Pass a file that you may read.") from None


def _make(name: str, stream: BinaryIO, *, can_go_on: bool = False) -> GivenText:
    data = stream.read(MOST_BYTES + 1)
    is_whole = len(data) <= MOST_BYTES
    if not is_whole and not can_go_on:
        hint = "Save it to a file, and pass its name."
        raise UsageError(f"{printable(name)}: more than {MOST_BYTES >> 20} MiB", hint)
    text = decode(data) if is_whole else data[:MOST_BYTES]
    return GivenText(name, text, is_whole, can_go_on and text[:2] == data[:2])


def decode(data: bytes) -> bytes:
    """Return a text as UTF-8 if it is UTF-16, as PowerShell saves what a command prints."""
    if not data.startswith(_UTF_16):
        return data
    return data.decode("utf-16", errors="replace").encode(errors="replace")
