"""How deep a YAML text nests, measured without building its values.

libyaml's composer calls itself for each level, in C: a file of 50,000 brackets ends the process.
"""

from __future__ import annotations

import re

import yaml

MOST = 100


def too_deep(text: str) -> int | None:
    """Return the line on which a text nests too deeply, None if it does not."""
    return _measure(text) if _may_be_deep(text) else None


def _may_be_deep(text: str) -> bool:
    """Return whether a text can be too deep, by a test that takes next to no time."""
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth = depth + 1 if bracket[0] in "[{" else max(depth - 1, 0)
        if depth > MOST:
            return True
    return re.search(rf"^[ ?:-]{{{2 * MOST},}}", text, re.MULTILINE) is not None


def _measure(text: str) -> int | None:
    depth = 0
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MOST:
                return event.start_mark.line + 1 if event.start_mark else 1
    except yaml.YAMLError:
        return None
    return None
