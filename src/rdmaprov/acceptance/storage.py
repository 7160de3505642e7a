"""Where an acceptance keeps what it saw."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from rdmaprov.problem import visible
from rdmaprov.runs.directory import RUNS
from rdmaprov.runs.masks import Mask


def history_path(site: Path, runs: Path = Path(RUNS)) -> Path:
    """Return the file with what a site's fleet has reached; one for each site."""
    digest = hashlib.sha256(str(site.resolve()).encode()).hexdigest()[:8]
    return runs / f"history-{site.resolve().name}-{digest}.jsonl"


def log_writer(logs: Path, mask: Mask) -> Callable[[str, str], Path]:
    """Return what writes a file of evidence below a directory, without secrets."""

    def keep(name: str, text: str) -> Path:
        path = logs / name
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8", errors="replace") as opened:
            opened.write(mask.text(visible(text)))
        return path

    return keep
