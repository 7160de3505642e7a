"""The changes of a node as lines of text."""

from collections.abc import Sequence

from rdmaprov.apply.events import Change

# What the configured layer shows when it has no value to compare.
_NO_VALUE = frozenset({"", "none", "another", "absent", "different", "unset"})


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Return one line per changed setting; layers with the same change share a line.

    >>> change_lines([Change("running", "ens1", "MTU", "1500", "9000"),
    ...               Change("configured", "ens1", "MTU", "none", "9000")])
    ['ens1 MTU 1500 → 9000 (running, configured)']
    """
    settings: dict[tuple[str, str, str], list[Change]] = {}
    for change in changes:
        settings.setdefault((change.device, change.setting, change.wanted), []).append(change)
    return [line for group in settings.values() for line in _merge_layers(group)]


def _merge_layers(changes: list[Change]) -> list[str]:
    """Return one line for changes to one value, or one for each if the old values differ."""
    seen = {change.seen for change in changes}
    if len(seen) > 1:
        seen -= _NO_VALUE
    if len(seen) != 1:
        return [_format_change(change, change.seen, [change.layer]) for change in changes]
    layers = list(dict.fromkeys(change.layer for change in changes))
    return [_format_change(changes[0], seen.pop(), layers)]


def _format_change(change: Change, seen: str, layers: list[str]) -> str:
    what = f"{change.device} {change.setting}".strip()
    return f"{what} {seen or '(empty)'} → {change.wanted or '(empty)'} ({', '.join(layers)})"
