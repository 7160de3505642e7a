"""A run of `validate` → states and checks that did not pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rdmaprov.history import parts
from rdmaprov.history.digest import RunDigest, Trouble
from rdmaprov.history.troubles import key_maker
from rdmaprov.validate.verdict import split_remedy

_RAIL = re.compile(r"\brail ?(\d{1,4})\b")


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a run of the suite found."""
    digest.states = {name: parts.text(own, "state") for name, own in parts.by_name(data, "nodes")}
    key_of = key_maker(digest.states.keys())
    for check in parts.mappings(data, "checks"):
        outcome = parts.text(check, "outcome")
        if outcome not in ("failed", "error"):
            continue
        test, message = parts.text(check, "test"), parts.text(check, "message")
        said, _ = split_remedy(message)
        # Runs of 0.1.0 have the rail in the name alone.
        named = _RAIL.search(test)
        rail = int(named[1]) if named and "rail" not in check else parts.index(check, "rail")
        digest.troubles.append(
            Trouble(
                # One reason that a node is unknown is one trouble, whatever was asked of it.
                key_of(test if outcome == "failed" else said),
                parts.text(check, "node"),
                rail,
                said,
                proven=outcome == "failed",
                words=key_of(said),
            )
        )
