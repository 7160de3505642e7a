"""What files show, each kind of them by its reader, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rdmaprov.explain.given import MOST_BYTES, GivenText
from rdmaprov.explain.inputs import INPUTS, InputKind, find_inputs
from rdmaprov.explain.join import join
from rdmaprov.explain.model import Shown, unread
from rdmaprov.finding.finding import Finding

_KNOWN = "which texts are known: docs/explain.md"


def explain_texts(given: Iterable[GivenText]) -> list[Shown]:
    """Return what texts show, in the order of the table of inputs; what is unknown comes last."""
    by_input: dict[str, list[GivenText]] = {}
    unknown: list[Shown] = []
    for each in given:
        kinds = find_inputs(each)
        if (why := _refusal(each, kinds)) is not None:
            unknown.append(Shown("", (each.name,), findings=(why,)))
            continue
        for kind in kinds:
            by_input.setdefault(kind.id, []).append(each)
    shown = [
        found
        for kind in INPUTS
        if kind.read is not None and kind.id in by_input
        for found in kind.read(by_input[kind.id])
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
    lacks = next((kind for kind in kinds if kind.read is None), None)
    if lacks is not None:
        return unread(given.name, f"is {lacks.what}, which has no reader", lacks.instead)
    if not given.is_whole and names != "job":
        size = f"{MOST_BYTES >> 20} MiB"
        return unread(given.name, f"{names}: has more than {size}", "cut out the part that matters")
    return None
