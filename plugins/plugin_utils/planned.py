"""What a survey announces to do to a node, so that a run can be held to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

_ANNOUNCED = ("changes", "reboot", "interrupts", "waits")


def announced(survey: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what each role with something to do, or a reason for a reboot, would do."""
    return {
        role: {name: entry[name] for name in _ANNOUNCED}
        for role, entry in survey["roles"].items()
        if role in survey["pending"] or entry["reboot"]
    }


def digest(survey: Mapping[str, Any]) -> str:
    """Return the SHA-256 of what a survey announces, as hexadecimal digits."""
    text = json.dumps(announced(survey), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
