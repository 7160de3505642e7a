"""What nodes' kernels logged while `accept` or `watch` ran: on which node, of which GPU or rail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rdmaprov.boundary import fields, list_of, message
from rdmaprov.finding.finding import Finding
from rdmaprov.kernel_log.catalogue import IGNORE
from rdmaprov.kernel_log.reader import MATTERS, LogEvent, parse_log

_MOST_LINES = 2000
# What node/kernel_lines.py is asked beside the time, and its answer.
ASKED = {"matters": MATTERS, "most": _MOST_LINES}
ANSWER = fields({"log": list_of(message, _MOST_LINES), "lacks": message})
Places = Mapping[str, tuple[str, int | None]]  # by device: its name, and the rail's number


def judge_lines(
    node: str, lines: Iterable[str], places: Places
) -> tuple[list[Finding], Sequence[str]]:
    """Return what needs a hand of what was logged, and phrases of the rest.

    What stood in the log before is a matter of `validate`.
    """
    log = parse_log("\n".join(lines))
    found = [_finding(node, each, places, proven) for each, proven in log.judged()]
    return found, [each.phrase for each in (*log.asking(IGNORE), *log.history)]


def rail_places(rails: Iterable[Iterable[str]]) -> dict[str, tuple[str, int | None]]:
    """Return what the devices of rails are called."""
    return {
        name: (f"rail {number}", number)
        for number, names in enumerate(rails)
        for name in names
        if name
    }


def _finding(node: str, event: LogEvent, places: Places, proven: bool) -> Finding:
    name, rail = places.get(event.device) or places.get(event.via) or (event.device, None)
    kind, values = event.meaning.finding, {"count": event.count}
    what, remedy = f"its kernel logged {event.phrase}", f"On {node}: {event.remedy}"
    return Finding(kind, what, remedy, node, rail, part=name, proven=proven, values=values)
