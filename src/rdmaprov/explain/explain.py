"""What files show, each kind of them by its reader, and all of them together.

inputs.yml has a row for each kind; docs/explain.md shows them. A text is known by what only one
tool writes; one that two rows know is of none of them, unless both tools write to the same standard
output (`output`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.explain import (
    fabric,
    flight,
    job_logs,
    nccl_tests,
    perf_result,
    ports,
    ras_report,
    topology,
)
from rdmaprov.explain.gpu_text import read as read_gpus
from rdmaprov.explain.join import join
from rdmaprov.explain.kernel_text import read as read_kernel_log
from rdmaprov.explain.model import MOST_BYTES, MOST_BYTES_IN_ALL, GivenText, Shown, unread
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable

_KNOWN = "which texts are known: docs/explain.md"


def explain_texts(given: Iterable[GivenText]) -> list[Shown]:
    """Return what texts show, in the order of the table of inputs; what is unknown comes last.

    Raises:
        UsageError: they are too large to be held at once.
    """
    by_input: dict[str, list[GivenText]] = {}
    unknown: list[Shown] = []
    held = 0
    for each in given:
        kinds = [] if each.data.isspace() or each.unpack else find_inputs(each)
        if (why := _refusal(each, kinds)) is not None:
            unknown.append(Shown("", (each.name,), findings=(why,)))
            continue
        # The logs of a thousand ranks are read again, one after the other.
        text = each.light() if [kind.id for kind in kinds] == ["job"] else each
        held += len(text.data)
        if held > MOST_BYTES_IN_ALL:
            raise UsageError(
                f"{printable(each.name)}: with it, the files have more than"
                f" {MOST_BYTES_IN_ALL >> 20} MiB",
                "Pass fewer of them; of dumps, those of the ranks that differ.",
            )
        for kind in kinds:
            by_input.setdefault(kind.id, []).append(text)
    shown = [
        found for kind in inputs() if kind.id in by_input for found in kind.read(by_input[kind.id])
    ]
    return join(shown) + unknown


def _refusal(given: GivenText, kinds: Sequence[InputKind]) -> Finding | None:
    """Return why a text is not read, None if it is."""
    names = " and ".join(kind.id for kind in kinds)
    if not given.data.strip():
        return unread(given.name, "is empty", "save the output again")
    if tool := given.unpack:
        return unread(given.name, "is compressed", f"unpack it: {tool} FILE | rdmaprov explain -")
    if not kinds:
        return unread(given.name, "is no text that is known, or lacks what tells which", _KNOWN)
    if len(kinds) > 1 and not all(kind.output for kind in kinds):
        return unread(
            given.name, f"has texts of several tools: {names}", "pass each in its own file"
        )
    if not given.is_whole and names != "job":
        size = f"{MOST_BYTES >> 20} MiB"
        return unread(given.name, f"{names}: has more than {size}", "cut out the part that matters")
    return None


@dataclass(frozen=True)
class InputKind:
    """A row of the table."""

    id: str
    what: str
    has: tuple[bytes, ...]
    only: re.Pattern[bytes]  # finds what only this tool writes, in a text that has one of the words
    # returns what texts of it show
    read: Callable[[Sequence[GivenText]], list[Shown]]
    tells: str = ""
    not_tells: str = ""
    # returns whether a JSON is of it; None if its tool writes none
    document: Callable[[Mapping[str, Any]], bool] | None = None
    output: bool = False  # whether its text may stand among what others of this sort write
    end: re.Pattern[bytes] | None = None  # finds what may stand below the output of any tool
    # returns whether a text that no row knows is of it
    seems: Callable[[GivenText], bool] | None = None

    def knows(self, given: GivenText) -> bool:
        """Return whether a text is of this row."""
        if given.document:
            return self.document is not None and self.document(given.document)
        return self._finds(self.only, given)

    def knows_end(self, given: GivenText) -> bool:
        """Return whether a text has what a launcher writes of such a job's end."""
        return self.end is not None and not given.document and self._finds(self.end, given)

    def _finds(self, pattern: re.Pattern[bytes], given: GivenText) -> bool:
        words = (each for each in self.has if each in given.data)
        return any(words) and pattern.search(given.data) is not None


def _only(*patterns: str) -> re.Pattern[bytes]:
    """Return one pattern of several; an anchor that some begin with is tried once for all."""
    every = []
    for anchor in ("^", r"\b", ""):
        own = [each for each in patterns if each.startswith(anchor)]
        patterns = tuple(each for each in patterns if each not in own)
        if own:
            every.append(f"{anchor}(?:{'|'.join(each.removeprefix(anchor) for each in own)})")
    return re.compile("|".join(every).encode(), re.MULTILINE)


def _each(read: Callable[[GivenText], Shown]) -> Callable[[Sequence[GivenText]], list[Shown]]:
    return lambda every: [read(each) for each in every]


# What names a version alone: of NCCL, if nothing else is in it.
_VERSION = re.compile(rb"^.{0,80}\b[NR]CCL version (?:: )?\d+\.\d+\.\d+\S*", re.MULTILINE)

# By id: the reader, and how a JSON or a text that no row's pattern knows is found to be of it.
_READ: dict[str, dict[str, Any]] = {
    "job": {
        "read": job_logs.read,
        "document": job_logs.is_elastic,
        "seems": lambda given: (
            b"CCL version" in given.data and not given.document and _VERSION.search(given.data)
        ),
    },
    "nccl-tests": {
        "read": _each(nccl_tests.read),
        "document": lambda found: "out_of_bounds" in found and "average_bus_bandwidth" in found,
    },
    "ras": {
        "read": _each(ras_report.read),
        "document": lambda found: "communicators_count" in found and "communicators" in found,
    },
    "flight-recorder": {"read": flight.read, "document": flight.is_dump},
    "perftest": {"read": _each(perf_result.read), "document": lambda found: "test_info" in found},
    **{name: {"read": _each(ports.reader(name))} for name in ("ibv_devinfo", "ibstat", "ibstatus")},
    "nvidia-smi-topo": {"read": _each(topology.read)},
    "kernel-log": {"read": _each(read_kernel_log)},
    "nvidia-smi-q": {"read": _each(read_gpus)},
    "subnet": {"read": fabric.read_subnet},
    "switch": {"read": fabric.read_switches, "seems": fabric.is_switch},
}


@cache
def inputs() -> tuple[InputKind, ...]:
    """Return the table, whose patterns and words are in inputs.yml."""
    import yaml

    rows: list[dict[str, Any]] = yaml.safe_load(fabric.TABLE.read_text())
    for row in rows:
        if texts := row.pop("texts", None):
            row["what"] += ", ".join(f"`{each['command']}`" for each in texts)
            row["only"] = [each["only"] for each in texts]
    return tuple(
        InputKind(
            **{**row, "has": tuple(map(str.encode, row["has"]))}
            | {each: _only(*row[each]) for each in ("only", "end") if each in row},
            **_READ[row["id"]],
        )
        for row in rows
    )


def find_inputs(given: GivenText) -> list[InputKind]:
    """Return the rows that know a text: none, one, or several that share an output."""
    found = [each for each in inputs() if each.knows(given)]
    if all(each.output for each in found):
        found = [each for each in inputs() if each in found or each.knows_end(given)]
    return found or [each for each in inputs() if each.seems and each.seems(given)][:1]
