"""A run of `plan`, `apply` or `revert` → states, settings that it changed, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmaprov.history import parts
from rdmaprov.history.digest import AppliedSetting, RunDigest, Trouble
from rdmaprov.history.troubles import key_maker


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a run of roles did."""
    nodes = list(parts.by_name(data, "nodes"))
    digest.states = {name: parts.text(own, "state") for name, own in nodes}
    key_of = key_maker(digest.states.keys())
    for name, own in nodes:
        # `apply` that was not confirmed has pending nodes: it changed none.
        if digest.verb in ("apply", "revert") and digest.states[name] != "pending":
            digest.settings += _settings(name, own)
        proven = digest.states[name] == "failed"
        digest.troubles += [
            Trouble(key_of(text), name, None, text, proven, key_of(text))
            for text in parts.texts(own, "problems")
        ]


def _settings(name: str, own: Mapping[str, Any]) -> list[AppliedSetting]:
    return [
        AppliedSetting(
            name,
            role,
            parts.text(each, "device"),
            parts.text(each, "setting"),
            parts.text(each, "seen"),
            parts.text(each, "wanted"),
        )
        for role in parts.mapping(own, "changes")
        for each in parts.mappings(own["changes"], role)
    ]
