"""A run's directory → what history keeps of it; of any version that wrote it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rdmaprov.history import from_accept, from_apply, from_subnet, from_validate, from_watch, parts
from rdmaprov.history.certificate_facts import certificate_facts
from rdmaprov.history.digest import Fact, RunDigest
from rdmaprov.problem import printable
from rdmaprov.runs.results import RESULTS, NotRead, load_results

CERTIFICATE = "certificate.json"
_YEAR_9000 = 221_845_392_000.0


def add_nothing(_digest: RunDigest, _data: dict[str, Any]) -> None:
    """Add nothing of a run of `tune`: it judges settings, and no node."""


_VERBS = {
    "plan": from_apply.add,
    "apply": from_apply.add,
    "revert": from_apply.add,
    "validate": from_validate.add,
    "accept": from_accept.add,
    "subnet": from_subnet.add,
    "watch": from_watch.add,
    "tune": add_nothing,
}


def read_run(directory: Path) -> RunDigest:
    """Return what history keeps of a run.

    rdmaprov 0.1.0 and what came before it wrote fewer fields, some without `verdict` and `ended`:
    those that are missing are left out.

    Raises:
        NotRead: it is damaged, incomplete, or of a newer version.
        FileNotFoundError: it has no results.
    """
    data = load_results(directory / RESULTS)
    try:
        digest = _head(directory.name, data)
        _VERBS[digest.verb](digest, data)
        digest.facts += certificate_facts(directory / CERTIFICATE, set(digest.states))
    except parts.Damaged as error:
        raise NotRead(f"{RESULTS}: {error} is missing or wrong") from error
    return digest


def _head(name: str, data: dict[str, Any]) -> RunDigest:
    verb, site = parts.text(data, "verb"), parts.text(data, "site")
    code = parts.index(data, "exit_code")
    if verb not in _VERBS:
        raise parts.Damaged("verb")
    if not site or code is None or code > 255:
        raise parts.Damaged("exit_code" if site else "site")
    started = _seconds(parts.text(data, "started"))
    facts = [
        Fact("", word, value)
        for key, word in (("commit", "site's commit"), ("rdmaprov", "rdmaprov"))
        if (value := parts.text(data, key))
    ]
    return RunDigest(
        printable(name),
        verb,
        site,
        parts.text(data, "limit"),
        started,
        parts.number(data, "seconds") or 0.0,
        code,
        facts=facts,
    )


def _seconds(text: str) -> float:
    try:
        time = datetime.fromisoformat(text)
        seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise parts.Damaged("started") from error
    if not 0 <= seconds < _YEAR_9000:  # a local time of it must exist, too
        raise parts.Damaged("started")
    return seconds
