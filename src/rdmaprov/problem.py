"""The problems of a site, and their places in its files."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rdmaprov.words import some

# What a terminal obeys, or turns a text around, as the inside of a regular expression's set:
# control characters but tab and newline; Unicode Bidirectional Algorithm (UAX #9), table 4; the
# separators of UAX #14.
CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[{CONTROL}]")
_MOST_ALIKE = 3  # problems of one rule at one place that are shown one by one


@dataclass(frozen=True, order=True)
class Position:
    """A place in a file; line and column count from 1."""

    file: str
    line: int = 1
    column: int = 1


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong with a site."""

    position: Position  # where it is written, or where it is missing
    variable: str
    message: str
    remedy: str  # what to write, without a full stop
    rule: str  # the id of the contract's rule, or of the kind of problem
    # the nodes that have it; empty if the whole site has it
    hosts: tuple[str, ...] = field(default=(), compare=False)

    def text(self, relative_to: Path | None = None) -> str:
        """Return the problem as one line, with its file relative to a directory if possible."""
        at = self.position
        nodes = f" [{some(self.hosts, 3)}]" if self.hosts else ""
        where = f"{display_path(at.file, relative_to)}:{at.line}:{at.column}"
        line = f"{where}: {self.variable}: {self.message}; {self.remedy}{nodes} ({self.rule})"
        return printable(line)


def printable(text: str) -> str:
    """Return a text on one line, with control characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )


def visible(text: str, escape: Callable[[str], str] = printable) -> str:
    """Return a text of several lines, with what a terminal obeys escaped."""
    return _CONTROL.sub(lambda found: escape(found[0]), text)


def display_path(file: str, relative_to: Path | None) -> str:
    """Return the file's name as a user types it from a directory."""
    if relative_to is None:
        return file
    try:
        return str(Path(file).relative_to(relative_to))
    except ValueError:
        return file


def merge_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems sorted by position; equal problems of several nodes are one."""
    hosts: dict[Problem, dict[str, None]] = {}
    for problem in problems:
        hosts.setdefault(problem, {}).update(dict.fromkeys(problem.hosts))
    return sorted(
        Problem(p.position, p.variable, p.message, p.remedy, p.rule, tuple(names))
        for p, names in hosts.items()
    )


def gather_places(
    problems: Iterable[Problem], written: Callable[[Problem], bool] = lambda _: False
) -> list[Problem]:
    """Return the problems; equal ones that no file states are all at the place of the first.

    What a site does not write has no place of its own: it is at its host.
    """
    first: dict[tuple[str, str, str, str], Position] = {}

    def at_first(each: Problem) -> Problem:
        key = each.variable, each.message, each.remedy, each.rule
        return replace(each, position=first.setdefault(key, each.position))

    return [each if written(each) else at_first(each) for each in problems]


def fold_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems; more than three of one rule at one place are one.

    A template in a file of group variables gives each node a value, and a message, of its own.
    """
    kinds: dict[tuple[Position, str, str], list[Problem]] = {}
    for each in problems:
        kinds.setdefault((each.position, each.variable, each.rule), []).append(each)
    return [
        each
        for own in kinds.values()
        for each in (own if len(own) <= _MOST_ALIKE else [_fold(own)])
    ]


def _fold(own: list[Problem]) -> Problem:
    first = own[0]
    hosts = tuple(sorted({host for each in own for host in each.hosts}))
    return replace(first, message=f"{first.message} (and {len(own) - 1:,} more here)", hosts=hosts)
