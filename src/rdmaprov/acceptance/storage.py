"""Where an acceptance keeps what it saw."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rdmaprov.runs.directory import RUNS


def history_path(site: Path, runs: Path = Path(RUNS)) -> Path:
    """Return the file with what a site's fleet has reached; one for each site."""
    digest = hashlib.sha256(str(site.resolve()).encode()).hexdigest()[:8]
    return runs / f"history-{site.resolve().name}-{digest}.jsonl"
