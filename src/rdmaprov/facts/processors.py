"""The kernel's lists of processors."""

from __future__ import annotations

import re

from rdmaprov.facts.errors import CouldNotTell


def processors(text: str, where: str) -> frozenset[int]:
    """Return the numbers of a list of the kernel's, such as 0-3,8; none for an empty one.

    Raises:
        CouldNotTell: it is no such list.
    """
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if ends is None:
            raise CouldNotTell(f"{where} shows {text.strip()[:60]!r}, not a list of numbers")
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)
