"""What a watch does not know, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from rdmaprov.finding.finding import Finding
from rdmaprov.finding.kinds import UNFIT
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.watch.fleet import WatchedFleet
from rdmaprov.watch.node_account import NodeAccount
from rdmaprov.watch.thresholds import STOPS_AT
from rdmaprov.words import duration, quantity

_DRIVER = "Check which driver it has: ethtool -i; with Soft-RoCE there are none"


def unknowns(fleet: WatchedFleet) -> Iterator[Finding]:
    """Yield what is not known of nodes and rails."""
    missing: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, node in fleet.nodes.items():
        yield from _silences(fleet, name, node)
        if node.answers:
            for rail, why in node.unfit.items():
                yield Finding("rail.unsupported", why, UNFIT, name, rail, proven=False)
            yield from _odd_counters(name, node)
            if node.missing:
                missing[node.missing].append(name)
    for lines, names in missing.items():
        what = f"no counter of {', of '.join(lines)}"
        found = _unknown("node.counters", what, _DRIVER, "", ", ".join(lines))
        yield replace(found, nodes=tuple(names), level="node")


def _unknown(kind: str, what: str, remedy: str, node: str, part: str = "") -> Finding:
    return Finding(kind, what, remedy, node, proven=False, part=part)


def _silences(fleet: WatchedFleet, name: str, node: NodeAccount) -> Iterator[Finding]:
    if node.lost is not None:
        what = node.lost.message.removeprefix(f"{name}: ")
        if node.answers:
            what = f"no answer since {duration(fleet.seconds - node.heard_s)}: {what}"
        hint = node.lost.hint or "Check its console"
        away = isinstance(node.lost, NodeUnreachable)
        kind = "node.unreachable" if away else "node.silent"
        yield Finding(kind, what, hint, name, proven=False, unreachable=away)
    elif not node.answers:
        yield _unknown("node.silent", "it has not answered yet", "Watch longer", name)
    if node.reboots:
        at = ", ".join(duration(each) for each in node.reboots[:3])
        what = f"it booted anew during the watch (seen at {at}): what it counted until then is lost"
        yield _unknown("node.rebooted", what, "Find out why: its console, last -x", name)


def _odd_counters(name: str, node: NodeAccount) -> Iterator[Finding]:
    if node.resets:
        what = (
            f"counters of {_rails(node.reset_rails)} were set back {len(node.resets)} times (first "
            f"seen at {duration(node.resets[0])}): what they counted then is lost"
        )
        remedy = "Find out who resets them, or reloads the driver"
        yield _unknown("counters.reset", what, remedy, name)
    stopped = {key for key in node.may_stop if (node.levels[key] or 0) >= STOPS_AT[key[1]]}
    for counter in sorted({each for _, each in stopped}):
        rails = {rail for rail, each in stopped if each == counter}
        what = f"{counter} of {_rails(rails)} is at its largest value, and counts no more"
        yield _unknown("counters.full", what, "Set it back: perfquery -R", name, counter)
    gone = {rail for rail, _ in node.gone}
    if gone:
        what = f"counters of {_rails(gone)} can no longer be read"
        yield _unknown("node.counters", what, "Check its log: dmesg", name)


def _rails(numbers: set[int]) -> str:
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"rail {ordered[0]}"
    return f"{quantity(len(ordered), 'rail')} ({', '.join(map(str, ordered))})"
