"""What files show, each kind of them by its reader, and all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rdmaprov.errors import UsageError
from rdmaprov.explain.given import MOST_BYTES, MOST_BYTES_IN_ALL, GivenText
from rdmaprov.explain.inputs import INPUTS, InputKind, find_inputs
from rdmaprov.explain.join import join
from rdmaprov.explain.model import Shown, unread
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
        kinds = find_inputs(each)
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
