"""The page of `explain sizing`: inputs, each number with its formula, and the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rdmaprov.report.drawing import MARKERS, SERIES, draw_svg
from rdmaprov.report.model import Grid, Plot, Table, View
from rdmaprov.sizing.rows import SizingAnswer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD = ("number", "result", "formula")
_SECTION = {"step": "What the step needs", "switches": "Switches and cables"}


def view(
    inputs: Mapping[str, str], sections: Mapping[str, SizingAnswer], data: Mapping[str, Any]
) -> View:
    """Return the content of the page.

    Args:
        inputs: options that were given, with their values.
        sections: the answer, by `step` and `switches`.
        data: the answer as JSON has it.

    """
    return View(
        headline="Sizing",
        summary=" · ".join(answer.head for answer in sections.values()),
        grid=Grid("", (), (), ()),
        plots=tuple(_plots(sections, data)),
        facts=tuple(inputs.items()),
        files=(),
    )


def _plots(sections: Mapping[str, SizingAnswer], data: Mapping[str, Any]) -> Iterator[Plot]:
    for name, answer in sections.items():
        table = Table(_HEAD, tuple(row.cells for row in answer.rows))
        yield Plot(name, _SECTION[name], "", answer.head, "", table, is_table=True)
    if "exposed_share" in data:
        yield _exposed(data)


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
            range(len(ratios)),
            [100 * own[ratio] for ratio in ratios],
            color=SERIES[number],
            marker=MARKERS[number],
            label=label,
        )
    axes.set_xticks(range(len(ratios)), ratios)
    axes.set_xlabel("oversubscription")
    axes.set_ylabel("share of the step (%)")
    axes.set_ylim(0, 100)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
