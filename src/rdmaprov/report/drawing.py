"""Pictures as SVG that takes its colours and its font from the page around it."""

import logging
import re
import warnings
from collections.abc import Callable, Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# matplotlib wants a colour where the page has a variable, which depends on the reader's scheme.
# These stand for it until the picture is text.
INK: Final = "#010101"
MUTED: Final = "#010102"
LINES: Final = "#010103"
BAD: Final = "#010104"
DUE: Final = "#010105"
PAPER: Final = "#010106"
SERIES: Final = tuple(f"#0102{number:02x}" for number in range(8))
_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    LINES: "--line",
    BAD: "--bad",
    DUE: "--due",
    PAPER: "--paper",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES)},
}
DASHES: Final = ("-", "--", "-.", ":")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
_SETTINGS: Mapping[str, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and selected
    "text.parse_math": False,  # a node's name may have dollars
    "font.family": "DejaVu Sans",  # comes with matplotlib, and is wider than what a page shows
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "grid.color": LINES,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}
# What names a colour map, clip path, marker or picture inside the SVG; other ids are never used.
_REFERENCED = re.compile(r'(?:href="#|url\(#)([^")]+)')
_ID = re.compile(r' id="([^"]*)"')
# Nodes' names may be in text, but not in what matplotlib writes between < and >.
_TAG = re.compile(r"<[^<>]*>")
_FONT = re.compile(r"font(?:-family)?: [^;\"]*'DejaVu Sans'[^;\"]*;? ?")


def draw_svg(name: str, size: tuple[float, float], draw: "Callable[[Axes], None]") -> str:
    """Return a picture as an <svg> element without colours of its own, the same each time.

    Without matplotlib, which is not installed unless asked for (rdmaprov[plots]), an empty text.

    Args:
        name: of the picture, such that ids of several in a page differ.
        size: width and height, in inches of 72 units.
    """
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it tells of its cache directory
    try:
        from matplotlib import rc_context, rcdefaults, rcParams
        from matplotlib.figure import Figure
    except ImportError:
        return ""
    text = StringIO()
    settings: Any = {**_SETTINGS, "svg.hashsalt": name}
    with rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters whose width its font does not have
        rcdefaults()  # a user's matplotlibrc is for the user's own plots
        rcParams.update(settings)
        figure = Figure(figsize=size)
        draw(figure.add_subplot())
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    return _for_page(text.getvalue())


def _for_page(text: str) -> str:
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.DOTALL)
    used = set(_REFERENCED.findall(svg))

    def tag(found: re.Match[str]) -> str:
        plain = _ID.sub(lambda each: each[0] if each[1] in used else "", found[0])
        plain = _FONT.sub(lambda each: _size(each[0]), plain)
        for colour, variable in _VARIABLES.items():
            plain = plain.replace(colour, f"var({variable})")
        return plain

    svg = _TAG.sub(tag, svg)
    return re.sub(r'^<svg([^>]*?) width="[^"]*" height="[^"]*"', r'<svg\1 aria-hidden="true"', svg)


def _size(font: str) -> str:
    """Return a font's size without its family, which is the page's."""
    found = re.search(r"[\d.]+px", font)
    return f"font-size: {found[0]}; " if found else ""
