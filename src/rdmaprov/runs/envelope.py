"""The head of every verb's results.json; docs/results.schema.json defines all of it."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import rdmaprov
from rdmaprov.exit_codes import ExitCode

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


SCHEMA = 1  # a reader refuses a newer one


@dataclass(frozen=True)
class Head:
    """The request of a run, and its start."""

    verb: str  # plan, apply, validate, accept, subnet, watch or tune
    site: Path
    limit: str | None
    started: datetime
    # the problems that the site accepts, each with its rule, reason and nodes
    waivers: Sequence[Mapping[str, Any]] = ()


def results_document(
    head: Head, ended: datetime, code: ExitCode, nodes: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of results.json.

    Args:
        code: the exit code; its name is the verdict.
        nodes: the result of each, by name: `state`, or `findings` of accept.
    """
    return {
        "schema": SCHEMA,
        "rdmaprov": rdmaprov.__version__,
        "verb": head.verb,
        "site": str(head.site),
        "limit": head.limit,
        "commit": site_commit(head.site),
        "started": head.started.isoformat(timespec="seconds"),
        "ended": ended.isoformat(timespec="seconds"),
        "seconds": round((ended - head.started).total_seconds(), 1),
        "verdict": code.name.lower(),
        "exit_code": int(code),
        "interrupted": code is ExitCode.INTERRUPTED,
        "waivers": list(head.waivers),
        **more,
        "nodes": nodes,
    }
