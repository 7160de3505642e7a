"""A run's directory → what history keeps of it; of any version that wrote it."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rdmaprov.exit_codes import ExitCode
from rdmaprov.history import from_accept, parts
from rdmaprov.history.certificate_facts import certificate_facts
from rdmaprov.history.digest import NOT_RUN, AppliedSetting, Fact, RunDigest, Trouble
from rdmaprov.history.troubles import key_maker
from rdmaprov.problem import printable
from rdmaprov.runs.last_word import left_out, word_of
from rdmaprov.runs.results import RESULTS, NotRead, load_results
from rdmaprov.validate.verdict import split_remedy

# A victim is not at fault; what is at fault is a trouble of its own.
_STATES = {"ok": "passed", "victim": "passed"}
_RAIL = re.compile(r"\brail ?(\d{1,4})\b")
CERTIFICATE = "certificate.json"
_YEAR_9000 = 221_845_392_000.0


def _add_watch(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a watch named, node by node."""
    own = {name: parts.text(node, "state") for name, node in parts.by_name(data, "nodes")}
    digest.states = {name: _STATES.get(state, state) for name, state in own.items()}
    key_of = key_maker(digest.states.keys())
    for each in parts.mappings(data, "findings"):
        rail, what = parts.index(each, "rail"), parts.text(each, "what")
        kind = parts.text(each, "kind")
        words = f"{kind}: {key_of(what)}"
        proven = parts.truth(each, "proven", default=True)
        for name in parts.texts(each, "nodes") or [""]:
            digest.troubles.append(Trouble(kind, name, rail, f"{kind}: {what}", proven, words))


def _add_validate(digest: RunDigest, data: Mapping[str, Any]) -> None:
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


def _add_subnet(digest: RunDigest, data: Mapping[str, Any]) -> None:
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
    rails = problem.get("rails", [])
    if not isinstance(rails, list):
        raise parts.Damaged("rails")
    return parts.index({"rails": rails[0]}, "rails") if len(rails) == 1 else None


def _add_apply(digest: RunDigest, data: Mapping[str, Any]) -> None:
    """Add what a run of roles did."""
    nodes = list(parts.by_name(data, "nodes"))
    digest.states = {name: parts.text(own, "state") for name, own in nodes}
    key_of = key_maker(digest.states.keys())
    for name, own in nodes:
        # `apply` that was not confirmed has pending nodes: it changed none.
        if digest.verb in ("apply", "revert") and digest.states[name] != "pending":
            digest.settings += [
                AppliedSetting(
                    name,
                    role,
                    parts.text(each, "device"),
                    parts.text(each, "setting"),
                    parts.text(each, "seen"),
                    parts.text(each, "wanted"),
                )
                for role in parts.mapping(own, "changes")
                for each in parts.mappings(own["changes"], role)
            ]
        proven = digest.states[name] == "failed"
        digest.troubles += [
            Trouble(key_of(text), name, None, text, proven, key_of(text))
            for text in parts.texts(own, "problems")
        ]


def add_nothing(_digest: RunDigest, _data: dict[str, Any]) -> None:
    """Add nothing of a run of `tune`: it judges settings, and no node."""


_VERBS = {
    "plan": _add_apply,
    "apply": _add_apply,
    "revert": _add_apply,
    "validate": _add_validate,
    "accept": from_accept.add,
    "subnet": _add_subnet,
    "watch": _add_watch,
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
