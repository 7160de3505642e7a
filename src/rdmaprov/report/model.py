"""What a page shows: plain values, of which the template makes HTML."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Tone(StrEnum):
    """How good something is, the worst first; NONE: there is nothing to be good or bad."""

    BAD = "bad"
    UNKNOWN = "unknown"
    DUE = "due"
    IDLE = "idle"
    GOOD = "good"
    NONE = "none"

    @property
    def symbol(self) -> str:
        """Return a sign that tells it without a colour."""
        return _SYMBOLS[self]


_SYMBOLS = {
    Tone.BAD: "✗", Tone.UNKNOWN: "?", Tone.DUE: "↻", Tone.IDLE: "○", Tone.GOOD: "✓", Tone.NONE: "",
}  # fmt: skip
ORDER = {tone: place for place, tone in enumerate(Tone)}


@dataclass(frozen=True)
class Cell:
    """What became of one subject on a node.

    Args:
        tone: how good it is.
        text: a short figure beside the sign; may be empty.
        words: the same in words, for a reader who does not see the sign.

    """

    tone: Tone
    text: str
    words: str


@dataclass(frozen=True)
class Row:
    """Nodes that are alike, with a cell for each subject."""

    label: str
    nodes: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def tone(self) -> Tone:
        """Return the worst of the cells."""
        return min((cell.tone for cell in self.cells), key=ORDER.__getitem__, default=Tone.NONE)


@dataclass(frozen=True)
class Grid:
    """Nodes by subjects.

    Args:
        subject: what the columns are: subjects, roles, rails.
        columns: their names.
        rows: the odd ones first.
        words: what the signs mean.

    """

    subject: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[tuple[Tone, str], ...]


@dataclass(frozen=True)
class Trouble:
    """One thing that went wrong, on one node or many alike.

    Args:
        tone: BAD: it is wrong; UNKNOWN: it could not be told; DUE: it is to be done.
        where: the test, task or rail.
        text: the first message.
        remedy: what to write or run.
        label: the nodes, folded.
        nodes: their names; empty if it concerns no single one.
        messages: all that differ.

    """

    tone: Tone
    where: str
    text: str
    remedy: str
    label: str
    nodes: tuple[str, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Skip:
    """Checks that were skipped for one reason, which proves nothing."""

    reason: str
    checks: int
    label: str
    nodes: tuple[str, ...]
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The numbers behind a plot; `left_out` says what it lacks of them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: str = ""


@dataclass(frozen=True)
class Plot:
    """A picture with its numbers.

    Args:
        name: its id in the page.
        title: its heading.
        svg: the picture, an <svg> element; empty without matplotlib.
        words: what it shows, for a reader who does not see it.
        note: how to read it.
        table: its numbers.
        wide: whether it needs the page's whole width.

    """

    name: str
    title: str
    svg: str
    words: str
    note: str
    table: Table
    wide: bool = True


@dataclass(frozen=True)
class Changes:
    """What changed, or is to: a role's settings, each with the nodes that share it."""

    role: str
    lines: tuple[tuple[str, str], ...]  # nodes, setting


@dataclass(frozen=True)
class View:
    """What is special to one verb."""

    headline: str
    summary: str
    grid: Grid
    troubles: tuple[Trouble, ...] = ()
    skips: tuple[Skip, ...] = ()
    changes: tuple[Changes, ...] = ()
    changes_title: str = ""
    plots: tuple[Plot, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = field(default=("results.json", "logs/"))
