"""The git commit of a site, so that a later reader knows which variables a run had."""

from __future__ import annotations

import subprocess
from pathlib import Path

CHANGED = "+changed"
_LIMIT_S = 10  # our choice: git reads its index, which is milliseconds on a local disk


def site_commit(site: Path) -> str:
    """Return the commit of a site's repository, with `+changed` where the site differs from it.

    Empty where the site is in no repository, has no commit, or git is missing or refuses.
    """
    try:
        commit = _git(site, "rev-parse", "--verify", "HEAD").strip()
        return commit + (CHANGED if _git(site, "status", "--porcelain", "--", ".") else "")
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def _git(site: Path, *words: str) -> str:
    # No program that the repository's own configuration names runs, and no index is written.
    quiet = ["--no-optional-locks", "-c", "core.fsmonitor=false"]
    done = subprocess.run(
        ["git", *quiet, "-C", str(site), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=_LIMIT_S,
    )
    return done.stdout
