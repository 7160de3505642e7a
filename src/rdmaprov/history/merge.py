"""Runs of `validate` of several controllers → one, judged over all of their nodes."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.facts.uniform import UNIQUE, Sample, odd_ones
from rdmaprov.history import parts
from rdmaprov.history.compare import RunNotRead
from rdmaprov.problem import printable
from rdmaprov.runs.envelope import CHANGED
from rdmaprov.runs.groups import count_states, fold_names, subject
from rdmaprov.runs.last_word import Word, in_order
from rdmaprov.runs.results import RESULTS, NotRead, load_results
from rdmaprov.validate.results import COMPARED, CheckResult, Outcome, compared_data

_SHOWN = 5  # nodes of one check that are named on its line; all are under `compared`


@dataclass(frozen=True)
class Part:
    """One of the runs that are merged."""

    name: str
    site: str
    commit: str
    started: datetime
    ended: datetime
    left_out: tuple[str, ...]
    interrupted: bool
    # of the nodes that it asked anything, what results.json has of each
    states: Mapping[str, Mapping[str, Any]]
    checks: Sequence[Mapping[str, Any]]
    fleet: Mapping[str, Mapping[str, int]]
    # by what makes values comparable, the nodes that have the value
    compared: Mapping[tuple[str, ...], Sequence[str]]


def read_part(directory: Path) -> Part:
    """Return a run of `validate`.

    Raises:
        UsageError: it is of another verb.
        RunNotRead: it cannot be read.
    """
    again = "Name another run, or validate those nodes again."
    try:
        data = load_results(directory / RESULTS)
        verb = parts.text(data, "verb")
        if verb != "validate":
            what = f"{directory} is a run of {verb}; merge joins runs of validate"
            raise UsageError(what, "What is between nodes, accept measures in one run.")
        return _part(directory.resolve().name, data)
    except FileNotFoundError as error:
        what = f"{directory} has no results.json: the run was killed, or is still running"
        raise RunNotRead(what, again) from error
    except NotRead as error:
        raise RunNotRead(f"{directory}: {error}", again) from error
    except (parts.Damaged, TypeError, ValueError) as error:
        raise RunNotRead(f"{directory}: results.json is damaged: {error}", again) from error


def _part(name: str, data: Mapping[str, Any]) -> Part:
    if "compared" not in data:
        raise parts.Damaged("it is of a version before merge, and does not have what was compared")
    complete = parts.mapping(data, "complete")
    nodes = dict(parts.by_name(data, "nodes"))
    return Part(
        name,
        parts.text(data, "site"),
        parts.text(data, "commit"),
        datetime.fromisoformat(parts.text(data, "started")),
        datetime.fromisoformat(parts.text(data, "ended")),
        tuple(parts.texts(complete, "left_out")),
        parts.truth(data, "interrupted", default=False),
        {node: own for node, own in nodes.items() if any(_counts(own).values())},
        list(parts.mappings(data, "checks")),
        {key: _counts(own) for key, own in parts.by_name(data, "fleet")},
        {
            tuple(parts.text(each, key) for key in COMPARED): parts.texts(each, "nodes")
            for each in parts.mappings(data, "compared")
        },
    )


def _counts(own: Mapping[str, Any]) -> Counter[str]:
    return Counter({each: parts.index(own, each) or 0 for each in Outcome})


@dataclass
class Merged:
    """Several runs as one."""

    runs: Sequence[Part]
    names: Sequence[str]
    chosen: dict[str, Part] = field(default_factory=dict)  # by node, the run whose word counts
    # what runs say differently of one node; the newer one counts
    conflicts: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)  # why not all is proven
    # those of the chosen runs that did not pass, and those that were judged anew
    checks: list[Mapping[str, Any]] = field(default_factory=list)
    compared: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    fleet: dict[str, Counter[str]] = field(default_factory=dict)

    @property
    def started(self) -> datetime:
        """Return when the first of the runs started."""
        return min(run.started for run in self.runs)

    @property
    def ended(self) -> datetime:
        """Return when the last of the runs ended."""
        return max(run.ended for run in self.runs)

    @property
    def nodes(self) -> dict[str, Mapping[str, Any]]:
        """Return what results.json has of each node; of one that no run asked, nothing passed."""
        empty = {each.value: 0 for each in Outcome}
        none = {"state": "unknown", "complete": False, "boot_id": "", **empty, "subjects": {}}
        return {
            name: self.chosen[name].states[name] if name in self.chosen else none
            for name in self.names
        }

    def exit_code(self) -> ExitCode:
        """Return 1 if a check failed, 4 if anything is not verified, else 0."""
        outcomes = {parts.text(each, "outcome") for each in self.checks}
        states = {parts.text(own, "state") for own in self.nodes.values()}
        if Outcome.FAILED in outcomes or "failed" in states:
            return ExitCode.FAILED
        proven = not self.unknown and Outcome.ERROR not in outcomes and states == {"passed"}
        return ExitCode.OK if proven else ExitCode.UNKNOWN

    def as_data(self) -> dict[str, Any]:
        """Return what results.json of `validate` has beside its head and its nodes."""
        counts = sum((_counts(own) for own in self.nodes.values()), Counter[str]())
        counts += sum(self.fleet.values(), Counter[str]())
        whole = not self.unknown and all(own.get("complete") is True for own in self.nodes.values())
        return {
            "hosts": None,
            "options": [],
            "counts": {each.value: counts[each] for each in Outcome},
            "fleet": {key: dict(own) for key, own in self.fleet.items()},
            "complete": {"fleet": whole, "left_out": sorted({*self._left_out()})},
            "checks": list(self.checks),
            "compared": compared_data(self.compared),
            "merged": [
                {"run": run.name, "site": run.site, "commit": run.commit, "nodes": own}
                for run in self.runs
                for own in [[name for name, each in self.chosen.items() if each is run]]
            ],
        }

    def _left_out(self) -> Iterator[str]:
        for run in self.runs:
            yield from run.left_out


def merge(runs: Sequence[Part], names: Sequence[str]) -> Merged:
    """Return runs as one: of each node the newest word, and what compares nodes judged anew.

    Args:
        names: of the site's nodes.
    """
    found = Merged(runs, names)
    for name in names:
        own = sorted((run for run in runs if name in run.states), key=lambda run: run.ended)
        if own:
            words = [_word(run.states[name], number) for number, run in enumerate(own)]
            found.chosen[name] = own[int(in_order(words[::-1])[-1].run)]
    found.conflicts += _conflicts(found)
    found.unknown += _unknown(found)
    _judge(found)
    return found


def _word(state: Mapping[str, Any], number: int) -> Word:
    """Return what orders the runs that asked a node."""
    uptime_s = parts.number(state, "uptime_s") or 0.0
    return Word("", str(number), parts.text(state, "boot_id"), uptime_s)


def _conflicts(found: Merged) -> Iterator[str]:
    """Yield what an older run says differently of a node: its state, or a value of it."""
    for name, newest in found.chosen.items():
        for run in found.runs:
            if run is newest or name not in run.states:
                continue
            was, now = (parts.text(each.states[name], "state") for each in (run, newest))
            values = [_values_of(each, name) for each in (run, newest)]
            differ = [(key, values[0][key]) for key in values[0].keys() & values[1].keys()]
            said = [(f"{key[1]} {key[2]}".rstrip(), a, values[1][key]) for key, a in sorted(differ)]
            for what, before, after in [("state", was, now), *said]:
                if before != after:
                    yield (
                        f"{name}: {what}: {before} in {run.name}, "
                        f"{after} in {newest.name}, which is newer and counts"
                    )


def _values_of(run: Part, name: str) -> dict[tuple[str, ...], str]:
    return {(*key[:4],): key[4] for key, nodes in run.compared.items() if name in nodes}


def _unknown(found: Merged) -> Iterator[str]:
    missing = [name for name in found.names if name not in found.chosen]
    if missing:
        yield f"in no run: {fold_names(missing)}"
    others = {name for run in found.runs for name in run.states} - {*found.names}
    if others:
        yield f"not in the site: {fold_names(others)}"
    commits = {run.commit for run in found.runs}
    if len(commits) > 1:
        said = ", ".join(f"{run.name}: {run.commit[:12] or 'none'}" for run in found.runs)
        yield f"the runs are of different commits of the site ({said})"
    elif any(not each or each.endswith(CHANGED) for each in commits):
        yield "the site is not committed: whether all runs used one state of it is not known"
    for run in found.runs:
        if run.interrupted or run.left_out:
            yield f"{run.name} did not ask everything: {', '.join(run.left_out) or 'interrupted'}"
    settings = {key[0] for run in found.runs for key in run.compared}
    for run in found.runs:
        if len(run.states) == 1 and not run.compared and settings:
            yield f"{fold_names(run.states)}: nothing to compare: {run.name} is of one node"


def _judge(found: Merged) -> None:
    """Judge what compares nodes over all of them, and take the rest from the runs."""
    for run in found.runs:
        for key, nodes in run.compared.items():
            own = [name for name in nodes if found.chosen.get(name) is run]
            if own:
                found.compared.setdefault(key, []).extend(own)
    tests = {key[0] for key in found.compared}
    for run in found.runs:
        for each in run.checks:
            node, test = parts.text(each, "node"), parts.text(each, "test")
            known = test in tests and parts.text(each, "outcome") != Outcome.ERROR
            if found.chosen.get(node) is run or (not node and not known):
                found.checks.append(each)
        for about, counts in run.fleet.items():
            found.fleet.setdefault(about, Counter()).update(counts)
    for about in {subject(test) for test in tests}:
        found.fleet[about] = Counter()
    for test in sorted(tests):
        failures = list(_failures(found, test))
        errors = any(parts.text(each, "test") == test for each in found.checks)
        outcome = Outcome.FAILED if failures else Outcome.ERROR if errors else Outcome.PASSED
        found.fleet[subject(test)][outcome] += 1
        if failures:
            more = len(failures) - _SHOWN
            said = "; ".join(failures[:_SHOWN]) + (f"; and {more:,} more" if more > 0 else "")
            found.checks.append(CheckResult(test, "", Outcome.FAILED, said).as_data())


def _failures(found: Merged, test: str) -> Iterator[str]:
    samples: list[Sample] = []
    for (of, setting, device, kind, value), nodes in found.compared.items():
        if of != test:
            continue
        if kind != UNIQUE:
            own = (setting, kind)
            samples += [Sample(name, f"{device} {setting}".strip(), own, value) for name in nodes]
    for odd in odd_ones(samples):
        one = odd.sample
        yield f"{one.node} {one.device} is {one.value}, expected {odd.usual} ({odd.share})"
    yield from _shared(found, test)


def _shared(found: Merged, test: str) -> Iterator[str]:
    owners: dict[str, list[str]] = {}
    for (of, setting, device, kind, value), nodes in found.compared.items():
        if of == test and kind == UNIQUE:
            owners.setdefault(f"{setting} {value}", []).extend(f"{n} {device}" for n in nodes)
    for what, own in owners.items():
        if len(own) > 1:
            yield f"{what} is that of {', '.join(sorted(own))}, expected unique"


def lines(found: Merged) -> Iterator[str]:
    """Yield what was judged over all runs, conflicts, and what is not verified."""
    for each in found.checks:
        if not parts.text(each, "node") and parts.text(each, "outcome") != Outcome.SKIPPED:
            yield f"{parts.text(each, 'test').rpartition('::')[2]}: {parts.text(each, 'message')}"
    yield from (printable(f"conflict: {each}") for each in found.conflicts)
    yield from (printable(f"not verified: {each}") for each in found.unknown)
    states = {name: parts.text(own, "state") for name, own in found.nodes.items()}
    words = {each: each for each in ("passed", "failed", "unknown")}
    yield f"{len(found.runs)} runs, {count_states(states, words, ('failed', 'unknown'))}"
