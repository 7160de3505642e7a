"""A run of `validate` → states and checks that did not pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import parts
from rdmaprov.history.digest import NOT_RUN, RunDigest, Trouble
from rdmaprov.history.troubles import key_maker
from rdmaprov.runs.last_word import left_out, word_of
from rdmaprov.validate.verdict import split_remedy

_RAIL = re.compile(r"\brail ?(\d{1,4})\b")


def add(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a run of the suite found."""
    nodes, lacks = parts.by_name(data, "nodes"), left_out(data)
    for name, own in nodes:
        digest.states[name] = word_of(own, lacks) or NOT_RUN
        if own.get("complete") is not True:
            digest.partial.add(name)
    if not parts.mapping(data, "complete").get("fleet"):
        digest.partial.add("")
    if NOT_RUN in digest.states.values() and digest.exit_code == ExitCode.OK:
        digest.exit_code = ExitCode.UNKNOWN
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
