"""Text of a node's files and programs, with the reason where there is none."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import rdmaprov.node
from rdmaprov.facts.errors import CouldNotTell, NotInstalled
from rdmaprov.facts.host import Host
from rdmaprov.facts.memo import remember
from rdmaprov.probe.script import node_script

END = "rdmaprov-end"
_ABSENT = ("No such file or directory", "Not a directory", "No such device")
_COMMANDS = 256  # of a node; other nodes get the same
_GLOB = re.compile(r"[A-Za-z0-9_./:@+*?=\[\]-]+")


@cache
def node_command(program: str, *words: str) -> str:
    """Return the command that runs a program, such as `relay.py`, with arguments."""
    source = node_script(Path(rdmaprov.node.__file__).with_name(program)).decode()
    # RHEL has a Python of its own, whether or not there is one in PATH.
    python = '"$(command -v python3 || echo /usr/libexec/platform-python)"'
    return " ".join([python, "-I", "-S", "-c", *map(shlex.quote, (source, *words))])


@dataclass(frozen=True)
class Files:
    """Files that one command read."""

    texts: Mapping[str, str]  # by path, each text; one without a newline at its end has one
    reasons: Mapping[str, str]  # by path, why there is no text, in the words of the C locale

    def get(self, path: str) -> str | None:
        """Return a file's text, None if there is no such file.

        Raises:
            CouldNotTell: it is there and cannot be read.
        """
        if path in self.texts:
            return self.texts[path]
        reason = self.reasons.get(path)
        if reason is None or reason in _ABSENT:
            return None
        raise CouldNotTell(f"{path}: {reason}{_needs_root(reason)}")

    def by_name(self, directories: Sequence[str]) -> dict[str, str]:
        """Return by their names the files of directories, each from the first that has it."""
        found: dict[str, str] = {}
        for directory in directories:
            for path in [*self.texts, *self.reasons]:
                parent, _, name = path.rpartition("/")
                if parent == directory and "*" not in name:
                    found.setdefault(name, path)
        return found

    def value(self, path: str) -> str | None:
        """Return a file's text without the blanks around it, None if there is no such file."""
        text = self.get(path)
        return None if text is None else text.strip()

    def must(self, path: str) -> str:
        """Return a file's text without the blanks around it.

        Raises:
            CouldNotTell: there is no such file, or it cannot be read.
        """
        value = self.value(path)
        if value is None:
            raise CouldNotTell(f"{path} does not exist")
        return value

    def number(self, path: str) -> int:
        """Return the number in a file of the kernel's; raise CouldNotTell if there is none."""
        return number(self.must(path), path)

    def matching(self, pattern: str) -> Iterator[tuple[re.Match[str], str]]:
        """Yield the match and the stripped text of each file whose path matches in full."""
        for path in sorted(self.texts):
            found = re.fullmatch(pattern, path)
            if found:
                yield found, self.texts[path].strip()


def number(text: str, where: str) -> int:
    """Return a decimal number; raise CouldNotTell if the text is none."""
    if not re.fullmatch(r"-?[0-9]+", text.strip()):
        raise CouldNotTell(f"{where} shows {text.strip()[:60]!r}, not a number")
    return int(text)


def read_files(host: Host, *paths: str, quiet: bool = False) -> Files:
    """Return the text of files, by one command; a path may have the shell's `*`, `?` and `[]`.

    Args:
        quiet: do not ask why a file has no text. For attributes that are not set (EINVAL), of
            which a card has hundreds.

    Raises:
        CouldNotTell: the command did not end by itself.
    """
    result = host.run(files_command(*paths, quiet=quiet))
    return parse_files(result.stdout, result.stderr, _words(paths))


@lru_cache(maxsize=_COMMANDS)
def files_command(*paths: str, quiet: bool = False) -> str:
    """Return the command that prints files; arguments as of `read_files`."""
    # GNU grep prints path, NUL, line: every character of a path and of a line is told apart, and
    # standard error has the reason for each file that it cannot read.
    return f"LC_ALL=C grep -aH{'s' if quiet else ''}Z '' {_words(paths)}; echo {END}"


@lru_cache(maxsize=_COMMANDS)
def _words(paths: tuple[str, ...]) -> str:
    return " ".join(path if _GLOB.fullmatch(path) else shlex.quote(path) for path in paths)


@remember
def parse_files(stdout: str, stderr: str, words: str = "") -> Files:
    """Return what `grep -aHZ '' FILE…; echo END` printed.

    Args:
        words: the paths that were asked for; one without line or reason is an empty file.

    Raises:
        CouldNotTell: the output is cut, or is not grep's.
    """
    body = whole(stdout, f"reading {words}")
    texts: dict[str, str] = {}
    # Not splitlines: a file may have form feeds and the like within a line.
    for line in body.split("\n")[:-1]:
        path, nul, rest = line.partition("\0")
        if not nul:
            raise CouldNotTell(f"reading {words}: {line[:60]!r} is not what grep prints")
        texts[path] = texts.get(path, "") + rest + "\n"
    reasons = {}
    for line in stderr.splitlines():
        found = re.fullmatch(r"(?:\S*/)?grep: (.+): ([^:]+)", line.strip())
        if found:
            reasons[found[1]] = found[2]
    for path in words.split():
        if path.startswith("/") and not re.search(r"[*?\[]", path) and path not in reasons:
            texts.setdefault(path, "")
    return Files(texts, reasons)


def whole(stdout: str, what: str) -> str:
    """Return what stands before the line `END`.

    Raises:
        CouldNotTell: it is not there, so the output is cut.
    """
    body, end, after = stdout.rpartition(END)
    if not end or after.strip() or (body and not body.endswith("\n")):
        raise CouldNotTell(f"{what}: the output is truncated: {stdout[-60:]!r}")
    return body


@dataclass(frozen=True)
class Output:
    """What a program printed, whole, and its exit status."""

    rc: int
    stdout: str
    stderr: str

    @property
    def last(self) -> str:
        """Return its last line, an error's before any other."""
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1].strip() if lines else "no message"


def run_program(host: Host, command: str, **options: float) -> Output:
    """Return what a program did in the C locale.

    Args:
        options: of the connection's `run`, such as `time_limit_s`.

    Raises:
        NotInstalled: there is no such program.
        CouldNotTell: its output is cut.
    """
    result = host.run(f"LC_ALL=C {command}; echo {END} $?", **options)
    command = short_command(command)
    found = re.fullmatch(rf"(?s)(.*){END} (\d+)\n?", result.stdout)
    if found is None:
        raise CouldNotTell(f"{command}: the output is truncated: {result.stdout[-60:]!r}")
    if found[2] == "127":
        raise NotInstalled(f"{command}: not installed")
    return Output(int(found[2]), found[1], result.stderr)


def short_command(command: str) -> str:
    """Return a command as a message has it: without lists of properties and code."""
    short = re.sub(r" --(?:no-pager|property=\S+)| -- ", " ", command.partition("\n")[0])
    return " ".join(short.split())[:120]


def output(host: Host, command: str) -> str:
    """Return what a program printed.

    Raises:
        CouldNotTell: not installed, or failed; with its last line.
    """
    done = run_program(host, command)
    if done.rc != 0:
        last = done.last
        raise CouldNotTell(
            f"{short_command(command)}: exit code {done.rc}: {last}{_needs_root(last)}"
        )
    return done.stdout


def parse_json(text: str, what: str) -> Any:  # noqa: ANN401 (JSON)
    """Return a program's JSON; an empty output is None, as iproute2 has it.

    Raises:
        CouldNotTell: it is cut, or no JSON.
    """
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise CouldNotTell(f"{what}: not JSON: {text[:60]!r}") from error


def _needs_root(reason: str) -> str:
    denied = "Permission denied" in reason or "Operation not permitted" in reason
    return "; requires root: set ansible_become: true" if denied else ""
