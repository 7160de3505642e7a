"""A run of `watch` → states and what it named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmaprov.history import parts
from rdmaprov.history.digest import RunDigest, Trouble
from rdmaprov.history.troubles import key_maker

# A victim is not at fault; what is at fault is a trouble of its own.
_STATES = {"ok": "passed", "victim": "passed"}


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a watch named, node by node."""
    own = {name: parts.text(node, "state") for name, node in parts.by_name(data, "nodes")}
    digest.states = {name: _STATES.get(state, state) for name, state in own.items()}
    key_of = key_maker(digest.states.keys())
    for each in parts.mappings(data, "findings"):
        rail, what = parts.index(each, "rail"), parts.text(each, "what")
        kind = parts.text(each, "kind")
        words = f"{kind}: {key_of(what)}"
        proven = parts.truth(each, "proven", default=True)
        for name in parts.texts(each, "nodes") or [""]:
            digest.troubles.append(Trouble(kind, name, rail, f"{kind}: {what}", proven, words))
