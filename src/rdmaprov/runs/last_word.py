"""The last word of a site's runs about each node: a complete `validate` that passed, or less."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.results import MOST_READ, newest_paths, results_of

PASSED, FAILED, UNKNOWN, STALE = "passed", "failed", "unknown", "stale"
CHANGES = ("apply", "revert")
# States of them after which a node may differ from what was validated.
_TOUCHED = ("changed", "failed", "half_done", "unreachable")
# Runs of several controllers lie side by side; our choice of how far their clocks are apart.
_CLOCKS = timedelta(days=1)
_RECORD = "--record"


@dataclass(frozen=True)
class Word:
    """What one run says of a node.

    Args:
        state: PASSED: a complete validate found nothing; FAILED; UNKNOWN: not all could be told;
            STALE: `apply` or `revert` may have changed the node.
        boot_id: of the node when the run ended; empty if it is not known.
        uptime_s: of the node when the run ended, s.
        lost: why the run could not reach the node; empty if it could.
    """

    state: str
    run: str
    boot_id: str = ""
    uptime_s: float = 0.0
    lost: str = ""


def word_of(own: Mapping[str, Any], left_out: Collection[str] = ()) -> str:
    """Return the state that a run of `validate` proves of a node; empty if it proves none.

    A run that passed and did not ask everything says nothing; one that failed says so whatever it
    left out. A record says nothing of the node as it is.
    """
    if _RECORD in left_out:
        return ""
    if own.get("state") == FAILED:
        return FAILED
    if own.get("complete") is True:
        return PASSED if own.get("state") == PASSED else UNKNOWN
    return UNKNOWN if own.get("error") else ""


def left_out(data: Mapping[str, Any]) -> list[str]:
    """Return what left checks out of a run of `validate`."""
    complete = data.get("complete")
    found = complete.get("left_out") if isinstance(complete, Mapping) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def last_words(site: Path, nodes: Collection[str], runs: Path | None = None) -> dict[str, Word]:
    """Return the last word about each node of which there is one.

    Runs are in the order of their names, which have the controller's time; those that saw a node
    in the same boot are in the order of its uptime.
    """
    runs = runs or runs_directory()
    said: dict[str, list[Word]] = defaultdict(list)
    enough: datetime | None = None
    for path in newest_paths(runs, "validate", *CHANGES):
        data = results_of(path, site)
        if data is None:
            continue
        if enough is not None and _started(data) < enough:
            break
        for node, word in words_of(path.parent.name, data):
            if node in nodes:
                said[node].append(word)
        if enough is None and all(
            any(word.state != STALE for word in said[node]) for node in nodes
        ):
            enough = _started(data) - _CLOCKS
    return {node: in_order(words)[-1] for node, words in said.items() if words}


@cache
def last_complete(site: Path, runs: Path) -> dict[str, tuple[str, float, str]]:
    """Return by node of its newest whole `validate`: boot, uptime as that began (s), run."""
    found: dict[str, tuple[str, float, str]] = {}
    for path in newest_paths(runs, "validate")[:MOST_READ]:
        data = results_of(path, site) or {}
        nodes = {} if left_out(data) else data.get("nodes", {})  # states have no kernel log
        for node, own in nodes.items():
            if isinstance(own, dict) and own.get("complete") is True and node not in found:
                with suppress(KeyError, TypeError, ValueError):  # somebody's work
                    began_s = float(own["uptime_s"]) - float(data["seconds"])
                    found[node] = str(own["boot_id"]), began_s, path.parent.name
    return found


def _started(data: Mapping[str, Any]) -> datetime:
    try:
        found = datetime.fromisoformat(data["started"])
    except (KeyError, TypeError, ValueError):
        return datetime.max.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def words_of(run: str, data: Mapping[str, Any]) -> Iterator[tuple[str, Word]]:
    """Yield what the results of a run say of each node of which they say something."""
    lacks, checks = left_out(data), data.get("checks")
    # Of a node that no check reached, one check stands for all.
    lost = {
        str(each.get("node")): str(each.get("message")).removeprefix(f"{each.get('node')}: ")
        for each in (checks if isinstance(checks, list) else ())
        if isinstance(each, dict) and each.get("also")
    }
    for node, own in data["nodes"].items():
        if not isinstance(own, dict):
            continue
        if data.get("verb") in CHANGES:
            state = STALE if own.get("state") in _TOUCHED and not _untouched(own) else ""
        else:
            state = word_of(own, lacks)
        boot, uptime = own.get("boot_id"), own.get("uptime_s")
        if state and boot and isinstance(boot, str) and isinstance(uptime, (int, float)):
            yield node, Word(state, run, boot, float(uptime))
        elif state:
            why = lost.get(node, "").partition(". ")[0] if state == UNKNOWN else ""
            yield node, Word(state, run, lost=why[:200])


def _untouched(own: Mapping[str, Any]) -> bool:
    """Return whether no connection was made to a node, so that no role began there."""
    return own.get("state") == "unreachable" and own.get("roles_run") == []


def in_order(words: list[Word]) -> list[Word]:
    """Return words, the newest first, with the oldest first; those of one boot by its uptime."""
    ordered = words[::-1]
    for boot in {word.boot_id for word in words} - {""}:
        places = [place for place, word in enumerate(ordered) if word.boot_id == boot]
        own = sorted((ordered[place] for place in places), key=lambda word: word.uptime_s)
        for place, word in zip(places, own, strict=True):
            ordered[place] = word
    return ordered
