"""What is new of a site since its last notification, and nothing if nothing is."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.history.answer import History
from rdmaprov.history.changes import SeriesChange
from rdmaprov.history.lines import change_text
from rdmaprov.history.metrics import site_label
from rdmaprov.history.standing import GOOD
from rdmaprov.runs.groups import fold_names
from rdmaprov.runs.results import read_json

Snapshot = dict[str, dict[str, str]]


def snapshot(found: History) -> Snapshot:
    """Return what a notification is about, by kind: verdicts, nodes that are not good, drops."""
    total = len(found.nodes)
    return {
        "runs": {verb: run.verdict for verb, run in found.newest.runs.items()},
        "nodes": {
            f"{verb} {node}": str(own["state"])
            for node, verbs in found.nodes.items()
            for verb, own in verbs.items()
            if own["state"] not in GOOD
        },
        "worse": {
            _drop_key(each): change_text(each, total)
            for each in found.changes
            if each.is_worse and each.holds
        },
    }


def _drop_key(each: SeriesChange) -> str:
    """Return what stays of a drop from run to run; noise moves its first run."""
    own = each.series
    return f"{own.stage}, {own.what}, rail {own.rail}, {own.scope}: {fold_names(each.nodes)}"


def message(found: History, was: Snapshot, now: Snapshot) -> dict[str, Any] | None:
    """Return the notification; None if nothing changed but the words of a drop."""
    runs = _differences(was, now, "runs")
    nodes = _differences(was, now, "nodes")
    drops = {
        key: now["worse"].get(key, "") or was["worse"][key]
        for key in was["worse"].keys() ^ now["worse"].keys()
    }
    if not (runs or nodes or drops):
        return None
    return {
        "schema": 1,
        "id": secrets.token_hex(16),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "rdmaprov": rdmaprov.__version__,
        "site": site_label(found.site),
        "exit_code": int(found.exit_code()),
        "runs": [
            {"verb": verb, "was": before, "now": after, "run": found.newest.runs[verb].name}
            for verb, (before, after) in runs.items()
            if after
        ],
        "nodes": [
            {"verb": verb, "node": node, "was": before or "good", "now": after or "good"}
            for key, (before, after) in nodes.items()
            for verb, _, node in [key.partition(" ")]
        ],
        "measurements": [
            {"text": text, "now": "worse" if key in now["worse"] else "no longer worse"}
            for key, text in drops.items()
        ],
    }


def _differences(was: Snapshot, now: Snapshot, kind: str) -> dict[str, tuple[str, str]]:
    old, new = was[kind], now[kind]
    pairs = {key: (old.get(key, ""), new.get(key, "")) for key in {**old, **new}}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def state_path(runs: Path, site: Path, target: str) -> Path:
    """Return the file with what a receiver was told last of a site."""
    own = f"{site.resolve()}\n{target}"
    return runs / f"notified-{hashlib.sha256(own.encode()).hexdigest()[:12]}.json"


def read_state(path: Path) -> Snapshot:
    """Return what was told last; nothing if that cannot be read: it is told again then."""
    empty: Snapshot = {"runs": {}, "nodes": {}, "worse": {}}
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError):
        return empty
    return {kind: _texts(data, kind) for kind in empty}


def _texts(data: object, kind: str) -> dict[str, str]:
    found = data.get(kind) if isinstance(data, Mapping) else None
    own = found if isinstance(found, Mapping) else {}
    return {str(key): str(value) for key, value in own.items()}
