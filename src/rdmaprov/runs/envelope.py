"""What results.json of every verb begins with; docs/results.schema.json describes all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.exit_codes import ExitCode

SCHEMA = 1  # a reader refuses one that is newer than its own


@dataclass(frozen=True)
class Head:
    """What a run was asked for.

    Args:
        verb: plan, apply, validate or accept.
        site: the inventory directory, as the user named it.
        limit: Ansible's pattern, if there is one.
        started: when, with its time zone.

    """

    verb: str
    site: Path
    limit: str | None
    started: datetime


def results_document(
    head: Head, ended: datetime, code: ExitCode, nodes: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return results.json's content.

    Args:
        head: what was asked for.
        ended: when the last node was through, with its time zone.
        code: what the run tells its caller; the verdict is its name.
        nodes: by name, what became of each; has `state`, or `findings` of accept.
        more: what only this verb has.

    """
    return {
        "schema": SCHEMA,
        "rdmaprov": rdmaprov.__version__,
        "verb": head.verb,
        "site": str(head.site),
        "limit": head.limit,
        "started": head.started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round((ended - head.started).total_seconds(), 1),
        "verdict": code.name.lower(),
        "exit_code": int(code),
        "interrupted": code is ExitCode.INTERRUPTED,
        **more,
        "nodes": nodes,
    }
