"""The content of a page, as plain values for the template."""

from dataclasses import dataclass, field
from enum import StrEnum


class Tone(StrEnum):
    """The state that a colour and a sign show, the worst first; NONE: nothing to show."""

    BAD = "bad"
    UNKNOWN = "unknown"
    DUE = "due"
    IDLE = "idle"
    GOOD = "good"
    NONE = "none"

    @property
    def symbol(self) -> str:
        """Return the sign that shows it without a colour."""
        return _SYMBOLS[self]


_SYMBOLS = {
    Tone.BAD: "✗",
    Tone.UNKNOWN: "?",
    Tone.DUE: "↻",
    Tone.IDLE: "○",
    Tone.GOOD: "✓",
    Tone.NONE: "",
}
ORDER = {tone: place for place, tone in enumerate(Tone)}


@dataclass(frozen=True)
class Cell:
    """The state of one subject on a node."""

    tone: Tone
    text: str  # a short number beside the sign; may be empty
    words: str  # the same in words, for screen readers and the tooltip


@dataclass(frozen=True)
class GridRow:
    """Nodes with equal cells, and these cells, one per subject."""

    label: str
    nodes: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def tone(self) -> Tone:
        """Return the worst tone of the cells."""
        return min((cell.tone for cell in self.cells), key=ORDER.__getitem__, default=Tone.NONE)


@dataclass(frozen=True)
class Grid:
    """Nodes by subjects."""

    subject: str  # what a column is: subject, role or rail
    columns: tuple[str, ...]
    rows: tuple[GridRow, ...]  # those with problems first
    words: tuple[tuple[Tone, str], ...]


@dataclass(frozen=True)
class Issue:
    """One finding, on one node or on many with equal messages."""

    tone: Tone  # BAD: failed; UNKNOWN: unknown; DUE: pending
    where: str
    text: str
    remedy: str
    label: str  # the nodes' names, folded
    nodes: tuple[str, ...]  # their names; empty if it concerns the whole fleet
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Skip:
    """Checks that were skipped for one reason: not verified."""

    reason: str
    checks: int
    label: str
    nodes: tuple[str, ...]
    subjects: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """The numbers of a plot; `left_out` says which of them are missing."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: str = ""


@dataclass(frozen=True)
class Plot:
    """A plot with its numbers."""

    name: str
    title: str
    svg: str | None  # an <svg> element; empty without matplotlib, None for the numbers alone
    words: str
    note: str
    table: Table


@dataclass(frozen=True)
class Changes:
    """The changes of a role, made or pending, each with its nodes."""

    role: str
    lines: tuple[tuple[str, str], ...]  # nodes, setting


@dataclass(frozen=True)
class Waiver:
    """A rule that the site waives: what it found, why that is accepted, and where."""

    rule: str
    reason: str
    found: str
    label: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """The parts of a page that differ between verbs."""

    headline: str
    summary: str
    grid: Grid
    issues: tuple[Issue, ...] = ()
    skips: tuple[Skip, ...] = ()
    changes: tuple[Changes, ...] = ()
    changes_title: str = ""
    plots: tuple[Plot, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = field(default=("results.json", "logs/"))
