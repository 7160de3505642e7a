"""The page of `explain sizing`: inputs, each number with its formula, and the result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.report.drawing import MARKERS, SERIES, draw_svg
from rdmaprov.report.model import Grid, Plot, Table, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD = ("number", "result", "formula")
_SECTION = {"step": "What the step needs", "switches": "Switches and cables"}


def view(
    inputs: Mapping[str, str], sections: Mapping[str, Sequence[str]], data: Mapping[str, Any]
) -> View:
    """Return the content of the page.

    Args:
        inputs: options that were given, with their values.
        sections: the answer's lines, by `step` and `switches`.
        data: the answer as JSON has it.

    """
    firsts = [lines[0] for lines in sections.values() if lines]
    return View(
        headline="Sizing",
        summary=" · ".join(firsts),
        grid=Grid("", (), (), ()),
        plots=tuple(_plots(sections, data)),
        facts=tuple(inputs.items()),
        files=(),
    )


def _plots(sections: Mapping[str, Sequence[str]], data: Mapping[str, Any]) -> Iterator[Plot]:
    for name, lines in sections.items():
        if lines:
            table = Table(_HEAD, tuple(map(_row, lines[1:])))
            yield Plot(name, _SECTION[name], "", lines[0], "", table, is_table=True)
    if "exposed_share" in data:
        yield _exposed(data)


def _row(line: str) -> tuple[str, str, str]:
    """Return what a line `name: result = formula` says; a line of another form is a remark."""
    ratio = re.fullmatch(r"\s+(\S+:1)  (.*?)(?:: (.*))?", line)
    if ratio:
        return f"at {ratio[1]}", ratio[2], ratio[3] or ""
    name, separator, rest = line.strip().partition(": ")
    if not separator or not _is_short(name):
        said, equals, formula = line.strip().partition(" = ")
        found = re.fullmatch(r"(.*?) (\d.*)", said) if equals else None
        if found:
            return found[1], found[2], formula
        return (said, "", formula) if equals else ("remark", "", said)
    result, _, formula = rest.partition(" = ")
    return name, result, formula


def _is_short(name: str) -> bool:
    return len(name) <= 60 and " = " not in name


def _exposed(data: Mapping[str, Any]) -> Plot:
    """Return the share of a step that waits for the fabric, by oversubscription."""
    shares = {"exposed": data["exposed_share"], "without overlap": data["share_without_overlap"]}
    ratios = list(data["exposed_share"])
    words = ", ".join(f"{ratio} {100 * data['exposed_share'][ratio]:.0f} %" for ratio in ratios)
    rows = tuple(
        (ratio, *(f"{100 * own[ratio]:.1f} %" for own in shares.values())) for ratio in ratios
    )
    return Plot(
        "exposed",
        "Share of a step that waits for the fabric",
        draw_svg("exposed", (7, 2.6), lambda axes: _draw(axes, ratios, shares)),
        f"Exposed at {words}",
        "Waits ÷ (computes + waits), by the ratio of leaf downlinks to uplinks. Communication that "
        "overlaps with compute does not wait.",
        Table(("oversubscription", *shares), rows),
    )


def _draw(axes: Axes, ratios: Sequence[str], shares: Mapping[str, Mapping[str, float]]) -> None:
    for number, (label, own) in enumerate(shares.items()):
        axes.plot(
            range(len(ratios)), [100 * own[ratio] for ratio in ratios],
            color=SERIES[number], marker=MARKERS[number], label=label,
        )  # fmt: skip
    axes.set_xticks(range(len(ratios)), ratios)
    axes.set_xlabel("oversubscription")
    axes.set_ylabel("share of the step (%)")
    axes.set_ylim(0, 100)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
