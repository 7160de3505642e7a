"""What differs between two runs: settings, states, checks, and what each size reached."""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rdmaprov.errors import UnreachableError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.history.certificate_facts import ISSUED, UNTIL
from rdmaprov.history.digest import NOT_RUN, RunDigest, RunSeries, Trouble
from rdmaprov.history.events import settings_between
from rdmaprov.history.index import Index
from rdmaprov.history.read_run import read_run
from rdmaprov.history.site_runs import site_runs
from rdmaprov.history.standing import GOOD
from rdmaprov.history.troubles import common_keys
from rdmaprov.rail_counters.change_points import MIN_CHANGE
from rdmaprov.runs.results import NotRead

_KNOWN = GOOD | {"failed", "pending"}
# Median absolute deviation → standard deviation of normal results (Rousseeuw and Croux, 1993).
_TO_SIGMA = 1.4826
_LEAST_RATIOS = 5  # fewer do not show how much results vary
_SIGMAS = 4  # of 8,192 rails, by chance half a rail is beyond it
# Our choice: below 1 MiB a message is latency, of which single runs differ by more.
_SMALL_BYTES, _SMALL_CHANGE = 1 << 20, 0.2
_WHOLE = ("plan", "apply")  # of one shape


@dataclass(frozen=True)
class RunDifference:
    """A value that was one thing in the first run and is another in the second."""

    what: str  # the name of the value, such as `NVIDIA driver` or `finding`
    was: str  # in the first run; empty if it was not there
    now: str
    nodes: tuple[str, ...]  # on which; none if it is about all together
    is_worse: bool | None = None  # whether that is for the worse; None where nobody can say

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "what": self.what,
            "was": self.was,
            "now": self.now,
            "nodes": list(self.nodes),
            "worse": self.is_worse,
        }


@dataclass(frozen=True)
class Measured:
    """One measurement of both runs; `differs` if that is beyond what runs differ by anyway."""

    series: RunSeries
    was: float
    now: float
    differs: bool

    @property
    def share(self) -> float:
        """Return the relative change."""
        return self.now / self.was - 1 if self.was else math.inf

    @property
    def is_worse(self) -> bool:
        """Return whether it differs, and for the worse."""
        return self.differs and (self.share > 0) == self.series.lower_is_better

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            **self.series.as_data(),
            "was": self.was,
            "now": self.now,
            "share": round(self.share, 4) if self.was else None,
            "differs": self.differs,
            "worse": self.is_worse,
        }


@dataclass
class Comparison:
    """What differs between two runs of one verb."""

    first: RunDigest  # the earlier one as the user named it
    second: RunDigest
    settings: list[RunDifference] = field(default_factory=list)
    states: list[RunDifference] = field(default_factory=list)
    # checks and findings that came or went
    troubles: list[RunDifference] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    only_one: int = 0  # how many measurements only one of them has

    def exit_code(self) -> ExitCode:
        """Return 1 if something is worse in the second run, 4 if nobody can say, else 0."""
        differ = any(each.is_worse for each in (*self.states, *self.troubles))
        if differ or any(each.is_worse for each in self.measured):
            return ExitCode.FAILED
        common = self.first.states.keys() & self.second.states.keys()
        known = (common or self.measured) and not self.unknown
        return ExitCode.OK if known else ExitCode.UNKNOWN

    @property
    def unknown(self) -> list[str]:
        """Return the nodes of both runs of which the second one does not know whether they pass."""
        now = self.second.states
        return [name for name in self.first.states if now.get(name, "failed") not in _KNOWN]


class RunNotRead(UnreachableError):
    """A run that is to be compared cannot be read."""


def read_pair(first: Path, second: Path, runs: Path) -> Comparison:
    """Return what differs between the runs of two directories.

    Args:
        runs: of all runs, where those of `apply` between the two are.

    Raises:
        UsageError: they are of different verbs.
        RunNotRead: the results of one cannot be read.
    """
    one, other = _read(first), _read(second)
    if one.verb != other.verb and {one.verb, other.verb} - {*_WHOLE}:
        raise UsageError(
            f"{one.name} is a run of {one.verb}, {other.name} of {other.verb}",
            "Compare two runs of one verb.",
        )
    found = compare(one, other)
    found.settings += _applied_between(one, other, runs)
    return found


def _applied_between(one: RunDigest, other: RunDigest, runs: Path) -> list[RunDifference]:
    """Return what runs of `apply` changed between two runs, the later one included."""
    early, late = sorted((one, other), key=lambda each: each.started)
    with Index(runs).open() as connection:
        try:
            found = site_runs(connection, Path(late.site))
        except UsageError:  # both are from elsewhere
            return []
        events = settings_between(connection, found, early.started, late.started)
    return [
        RunDifference(f"{each.key} ({each.run.name})", each.was, each.now, each.nodes)
        for each in events
    ]


def _read(directory: Path) -> RunDigest:
    try:
        return read_run(directory)
    except FileNotFoundError as error:
        raise RunNotRead(
            f"{directory} has no results.json: the run was killed, or is still running",
            "Name another run.",
        ) from error
    except NotRead as error:
        raise RunNotRead(f"{directory}: {error}", "Name another run.") from error


def compare(one: RunDigest, other: RunDigest) -> Comparison:
    """Return what differs between two runs."""
    common = one.values.keys() & other.values.keys()
    return Comparison(
        one,
        other,
        list(_settings(one, other)),
        [*_states("state", one.states, other.states), *_stages(one, other)],
        [*_troubles(one, other)],
        _measured(one, other, common),
        len(one.values.keys() ^ other.values.keys()),
    )


def _settings(one: RunDigest, other: RunDigest) -> Iterator[RunDifference]:
    was, now = (
        {(each.node, each.key): each.value for each in run.facts if each.key not in (ISSUED, UNTIL)}
        for run in (one, other)
    )
    grouped: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for node, key in {**was, **now}:
        # What one version of rdmaprov did not write is no difference.
        pair = was.get((node, key)), now.get((node, key))
        if None not in pair and pair[0] != pair[1]:
            grouped[key, str(pair[0]), str(pair[1])].append(node)
    for what, nodes in grouped.items():
        yield RunDifference(*what, tuple(filter(None, nodes)))


def _states(what: str, was: dict[str, str], now: dict[str, str]) -> Iterator[RunDifference]:
    grouped: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in {**was, **now}:
        pair = was.get(name, ""), now.get(name, "")
        if pair[0] != pair[1]:
            grouped[pair].append(name)
    for (before, after), names in grouped.items():
        is_known = before and after and NOT_RUN not in (before, after)
        worse = (before in GOOD and after not in GOOD) if is_known else None
        yield RunDifference(what, before, after, tuple(names), worse)


def _stages(one: RunDigest, other: RunDigest) -> Iterator[RunDifference]:
    for name in one.stages.keys() & other.stages.keys():
        for each in _states(f"stage {name}", {"": one.stages[name]}, {"": other.stages[name]}):
            yield RunDifference(each.what, each.was, each.now, (), each.is_worse)


def _troubles(one: RunDigest, other: RunDigest) -> Iterator[RunDifference]:
    in_order = sorted((one, other), key=lambda each: each.started)
    keys = common_keys(in_order, lambda run: run.troubles)
    was, now = _first_of_each(one, keys), _first_of_each(other, keys)
    yield from _joined((each for key, each in now.items() if key not in was), came=True)
    # Of what the other run did not ask, nobody knows whether it is gone.
    gone = (each for key, each in was.items() if key not in now and key[1] not in other.partial)
    yield from _joined(gone, came=False)


def _first_of_each(run: RunDigest, keys: Mapping[str, str]) -> dict[tuple[str, str], Trouble]:
    """Return one trouble of each kind and node: rails have equal ones."""
    found: dict[tuple[str, str], Trouble] = {}
    for each in run.troubles:
        found.setdefault((keys.get(each.key, each.key), each.node), each)
    return found


def _joined(found: Iterator[Trouble], *, came: bool) -> Iterator[RunDifference]:
    grouped: dict[str, list[Trouble]] = defaultdict(list)
    for each in found:
        grouped[each.key].append(each)
    for own in grouped.values():
        text = own[0].text
        nodes = tuple(dict.fromkeys(each.node for each in own if each.node))
        worse = came and any(each.proven for each in own)
        yield RunDifference("finding", "" if came else text, text if came else "", nodes, worse)


def _measured(one: RunDigest, other: RunDigest, common: Collection[RunSeries]) -> list[Measured]:
    kinds: dict[tuple[object, ...], list[RunSeries]] = defaultdict(list)
    for each in one.values:
        if each in common:
            kinds[each.stage, each.what, each.scope, bool(each.node)].append(each)
    found = []
    for own in kinds.values():
        pairs = [(one.values[each], other.values[each]) for each in own]
        noise = _noise(pairs) if own[0].node else 0.0
        found += [
            Measured(each, was, now, _differs(each, was, now, noise))
            for each, (was, now) in zip(own, pairs, strict=True)
        ]
    return found


def _noise(pairs: Sequence[tuple[float, float]]) -> float:
    """Return how far nodes and rails differ from their median by chance, as a logarithm."""
    ratios = [math.log(now / was) for was, now in pairs if was > 0 and now > 0]
    if len(ratios) < _LEAST_RATIOS:
        return 0.0
    middle = statistics.median(ratios)
    return _SIGMAS * _TO_SIGMA * statistics.median(abs(each - middle) for each in ratios)


def _differs(series: RunSeries, was: float, now: float, noise: float) -> bool:
    if not was or not now:
        return was != now
    is_small = 0 < series.bytes < _SMALL_BYTES
    least = math.log1p(_SMALL_CHANGE if is_small else MIN_CHANGE)
    return abs(math.log(now / was)) >= max(least, noise)
