"""Parameters of kernel modules: what modprobe will give them, and what they have.

Sources: man modprobe.d(5); kmod libkmod/libkmod-config.c.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import Files, read_files

# By precedence: a file hides those of its name in later directories.
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMMAND_LINE = "/proc/cmdline"


@dataclass(frozen=True)
class ConfLine:
    """A line of modprobe.d in words, and its file."""

    words: tuple[str, ...]
    file: str


@dataclass(frozen=True)
class Configuration:
    """All that modprobe reads, in its order."""

    lines: tuple[ConfLine, ...]

    def option(self, module: str, parameter: str) -> tuple[str, str] | None:
        """Return a parameter's value at the module's next load, and its place; None for none.

        The last one counts.
        """
        last = None
        for line in self.lines:
            if line.words[0] != "options" or _name(line.words[1:2]) != _name([module]):
                continue
            for word in line.words[2:]:
                name, equals, value = word.partition("=")
                if _name([name]) == _name([parameter]):
                    last = (value if equals else "1", line.file)
        return last

    def blocking_line(self, module: str) -> str:
        """Return what keeps systemd-modules-load from loading a module; empty if nothing does."""
        for line in self.lines:
            command = line.words[2].rpartition("/")[2] if len(line.words) > 2 else ""
            of = line.words[0]
            if _name(line.words[1:2]) == _name([module]) and (
                of == "blacklist" or (of == "install" and command in ("true", "false"))
            ):
                return f"{line.file} has '{' '.join(line.words)}'"
        return ""


def read(host: Host) -> Configuration:
    """Return what modprobe reads: its files, then the kernel's command line."""
    files = read_files(host, *(f"{each}/*.conf" for each in DIRECTORIES), COMMAND_LINE)
    return parse(files)


def parse(files: Files) -> Configuration:
    """Return the configuration in these files."""
    chosen = files.by_name(DIRECTORIES)
    lines = [
        line
        for name in sorted(chosen)
        for line in parse_text(files.must(chosen[name]), chosen[name])
    ]
    return Configuration((*lines, *_parse_command_line(files.must(COMMAND_LINE))))


def parse_text(text: str, path: str) -> Iterator[ConfLine]:
    """Yield the lines of a file's text, comments left out, a backslash's line joined."""
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield ConfLine(words(line, path), path)


def words(text: str, where: str) -> tuple[str, ...]:
    """Return a line's words; double quotes hold one together."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters, lexer.quotes = True, "", '"'
    lexer.escape = ""
    try:
        return tuple(lexer)
    except ValueError as error:
        raise CouldNotTell(f"{where}: {text.strip()[:60]!r}: {error}") from error


def _parse_command_line(text: str) -> Iterator[ConfLine]:
    for word in words(text, COMMAND_LINE):
        key, equals, value = word.partition("=")
        module, dot, parameter = key.partition(".")
        if key in ("modprobe.blacklist", "module_blacklist"):
            for each in value.split(","):
                yield ConfLine(("blacklist", each), COMMAND_LINE)
        elif dot and equals:
            yield ConfLine(("options", module, f"{parameter}={value}"), COMMAND_LINE)


def same_value(one: str, other: str) -> bool:
    """Return whether two texts are one value of a parameter: Y and 1, 0x10 and 16, 1,2 each."""
    if "," in one or "," in other:
        parts = one.split(","), other.split(",")
        return len(parts[0]) == len(parts[1]) and all(map(same_value, *parts))
    return _meaning(one) == _meaning(other)


def _meaning(text: str) -> str:
    lower = text.strip().lower()
    if lower in ("y", "yes", "on", "true"):
        return "1"
    if lower in ("n", "no", "off", "false"):
        return "0"
    if re.fullmatch(r"-?0x[0-9a-f]+", lower):
        return str(int(lower, 16))
    if re.fullmatch(r"-?0[0-7]+", lower):
        return str(int(lower, 8))
    return lower if re.fullmatch(r"-?\d+", lower) else text.strip()


def _name(written: tuple[str, ...] | list[str]) -> str:
    """Return a module's name as the kernel spells it."""
    return written[0].replace("-", "_") if written else ""
