"""The saved answers of switches: which file has what of which switch."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rdmaprov.boundary import RIGHT, OddAnswer, parse_answer
from rdmaprov.errors import UsageError

# Our bounds: the CONFIG_DB of a switch with 512 ports takes 2 MB.
MOST_BYTES = 32 << 20
_MOST_FILES = 1000
_LONGEST_LINE = 4096
# What a terminal shows before a command: `admin@leaf01:~$`, `leaf01#`, `cumulus@leaf01:mgmt:~$`.
_PROMPT = re.compile(
    r"\s{0,8}[^\s#$>]{0,128}[#$>] ?"
    r"(?P<command>(?:sudo )?(?:nv|show|sonic-cfggen|cat)\b.{0,300})"
)

# A file may be named after its command, with `_` for blanks: show_pfc_counters.txt.
_NAMED = re.compile(r"(?:nv|show|sonic-cfggen) ")


@dataclass(frozen=True)
class SavedAnswer:
    """What one command printed."""

    file: str
    command: str  # as it was typed, or as the file is named; empty if neither is there
    text: str
    document: Any = field(default=None, repr=False)  # the text as JSON, None if it is none

    @property
    def label(self) -> str:
        """Return how a message names it."""
        return f"`{self.command}`" if self.command else self.file


@dataclass
class SavedSwitch:
    """All answers of one switch, and what cannot be read of them."""

    name: str
    answers: list[SavedAnswer] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)


def find_switches(paths: Sequence[Path]) -> list[SavedSwitch]:
    """Return the switches of directories and files.

    A directory with files is one switch; with directories that have files, each of these is one
    and its own files are none's. A file is one switch.

    Raises:
        UsageError: one is missing, or a directory has no file.
    """
    found = []
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist", "Pass directories or files of answers.")
        if not path.is_file() and not path.is_dir():
            raise UsageError(f"{path} is no file and no directory", "Pass saved answers.")
        own = [_read_switch(path.stem, [path])] if path.is_file() else _of_directory(path)
        if not own:
            raise UsageError(
                f"{path} has no file",
                "Save what a switch answers in it; see: rdmaprov explain switch --commands SYSTEM",
            )
        found += own
    return found


def _of_directory(path: Path) -> list[SavedSwitch]:
    """Return the switch of a directory's files; those of directories in it, if they have files.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        inside = {each: _files(each) for each in sorted(path.iterdir()) if each.is_dir()}
        if not any(inside.values()):
            inside = {path.resolve(): _files(path)}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", "Let this user read it.") from error
    return [_read_switch(each.name, files) for each, files in inside.items() if files]


def _files(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_file())


def _read_switch(name: str, files: Sequence[Path]) -> SavedSwitch:
    found = SavedSwitch(name)
    if len(files) > _MOST_FILES:
        found.not_read.append(f"more than {_MOST_FILES:,} files: the rest is not read")
    for file in files[:_MOST_FILES]:
        try:
            if file.stat().st_size > MOST_BYTES:
                found.not_read.append(f"{file.name} is larger than {MOST_BYTES >> 20} MiB")
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            found.not_read.append(f"{file.name}: {error.strerror}")
            continue
        if not text.strip():
            found.not_read.append(f"{file.name} is empty")
            continue
        found.answers += split_answers(file.name, text, found.not_read.append)
    return found


def split_answers(file: str, text: str, not_read: Callable[[str], None]) -> list[SavedAnswer]:
    """Return the answers of a file: one, or one for each command that a terminal shows in it.

    A last line of a text that does not end is cut, and could say something else.
    """
    if not text.endswith("\n") and text.lstrip()[:1] not in ("{", "["):
        not_read(f"{file}: its last line has no end")
        text = text[: text.rfind("\n") + 1]
    stem = file.rpartition(".")[0].replace("_", " ")
    parts: list[tuple[str, list[str]]] = [(stem if _NAMED.match(stem) else "", [])]
    for line in text.replace("\r\n", "\n").replace("\0", "\ufffd").split("\n"):
        prompt = _PROMPT.fullmatch(line[:_LONGEST_LINE].rstrip())
        if prompt is not None:
            parts.append((" ".join(prompt["command"].split()), []))
        else:
            parts[-1][1].append(line)
    return [
        _answer(file, command, "\n".join(lines), not_read)
        for command, lines in parts
        if "".join(lines).strip()
    ]


def _answer(file: str, command: str, text: str, not_read: Callable[[str], None]) -> SavedAnswer:
    document = None
    label = f"`{command}`" if command else file
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = parse_answer(text, lambda _: RIGHT, MOST_BYTES)
        except OddAnswer:
            not_read(f"{label}: cut, or no JSON")
    return SavedAnswer(file, command, text, document)
