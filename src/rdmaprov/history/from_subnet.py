"""A run of `subnet` → states of nodes and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rdmaprov.history import parts
from rdmaprov.history.digest import RunDigest, Trouble
from rdmaprov.history.troubles import key_maker


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a run found; a problem of several rails is one of their node."""
    digest.states = {name: parts.text(own, "state") for name, own in parts.by_name(data, "nodes")}
    key_of = key_maker(digest.states.keys())
    for problem in parts.mappings(data, "problems"):
        kind, name = parts.text(problem, "kind"), parts.text(problem, "name")
        text = f"{name}: {parts.text(problem, 'text')}"
        digest.troubles.append(
            Trouble(
                key_of(f"{kind}: {name}" if kind else text),
                parts.text(problem, "node"),
                _rail(problem),
                text,
                proven=parts.text(problem, "level") == "wrong",
                words=key_of(text),
            )
        )


def _rail(problem: Mapping[str, Any]) -> int | None:
    """Return the problem's one rail."""
    rails = problem.get("rails", [])
    if not isinstance(rails, list):
        raise parts.Damaged("rails")
    return parts.index({"rails": rails[0]}, "rails") if len(rails) == 1 else None
