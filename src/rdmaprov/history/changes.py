"""Where measurements changed over the runs of a site, and what changed with them."""

import sqlite3
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rdmaprov.history.digest import RunSeries
from rdmaprov.history.events import Event
from rdmaprov.history.shift import WINDOW, Shift, shifts, trend
from rdmaprov.history.site_runs import SiteRun
from rdmaprov.rail_counters.change_points import MIN_CHANGE

# Runs by which noise moves the place of a change: bench/history.py measures it.
NEAR = 2


@dataclass(frozen=True)
class Track:
    """The values of a series, in the order of time, with their runs."""

    series: RunSeries
    runs: tuple[SiteRun, ...]
    values: tuple[float, ...]

    def as_data(self) -> dict[str, object]:
        """Return its figures as JSON has them."""
        return {
            **self.series.as_data(),
            "runs": len(self.runs),
            "first_run": self.runs[0].name,
            "newest_run": self.runs[-1].name,
            "median": statistics.median(self.values),
            "newest": self.values[-1],
            "trend_per_run": round(trend(self.values), 5),
        }


@dataclass
class SeriesChange:
    """A change that several series of one kind have at nearly the same run."""

    series: RunSeries  # the first one; the others differ in the node, or in the size
    shift: Shift  # the first one's, with the medians of all as levels
    run: SiteRun
    number: int  # of that run among all that have the series, from 1
    of: int
    nodes: tuple[str, ...]  # that have it; none if it is about all together
    sizes: tuple[int, ...]
    holds: bool
    # what changed at most NEAR runs before or after
    events: list[Event] = field(default_factory=list)

    @property
    def is_worse(self) -> bool:
        """Return whether it is a change for the worse."""
        return (self.shift.share > 0) == self.series.lower_is_better

    def as_data(self) -> dict[str, object]:
        """Return it as JSON has it."""
        own = self.series
        return {
            "run": self.run.name,
            "number": self.number,
            "of": self.of,
            "kind": "drift" if self.shift.is_drift else "level",
            "stage": own.stage,
            "what": own.what,
            "rail": own.rail,
            "unit": own.unit,
            "scope": own.scope,
            "nodes": list(self.nodes),
            "sizes_bytes": list(self.sizes),
            "before": self.shift.before,
            "after": self.shift.after,
            "share": round(self.shift.share, 4),
            "worse": self.is_worse,
            "holds": self.holds,
            "with": [each.as_data() for each in self.events],
        }


def tracks(connection: sqlite3.Connection, runs: Sequence[SiteRun]) -> Iterator[Track]:
    """Yield all series of some runs; one at a time is in memory."""
    own = {run.id: run for run in runs}
    order = {run.id: place for place, run in enumerate(runs)}
    values = "SELECT run, value FROM value WHERE series = ?"
    for number, *series in connection.execute(
        "SELECT id, stage, what, node, rail, bytes, unit, scope FROM series"
    ):
        rows = connection.execute(values, (number,))
        mine = sorted((order[run], run, value) for run, value in rows if run in own)
        if mine:
            yield Track(
                RunSeries(*series),
                tuple(own[run] for _, run, _ in mine[-WINDOW:]),
                tuple(value for _, _, value in mine[-WINDOW:]),
            )


def changes_of(track: Track) -> list[SeriesChange]:
    """Return where a series changed."""
    found = shifts(track.values)
    own = track.series
    return [
        SeriesChange(
            own,
            shift,
            track.runs[shift.place],
            shift.place + 1,
            len(track.runs),
            (own.node,) if own.node else (),
            (own.bytes,) if own.bytes else (),
            _holds(shift, found[-1]),
        )
        for shift in found
    ]


def _holds(shift: Shift, last: Shift) -> bool:
    """Return whether the newest level still differs from that before a change, in its direction."""
    share = last.after / shift.before - 1
    return abs(share) >= MIN_CHANGE and (share > 0) == (shift.share > 0)


def gather(found: Iterable[SeriesChange]) -> list[SeriesChange]:
    """Return the changes; those of one kind at nearly the same run are one, the newest last."""
    kinds: dict[tuple[object, ...], list[SeriesChange]] = {}
    for each in found:
        own = each.series
        is_fleet = not own.node
        key = (own.stage, own.what, own.rail, own.unit, own.scope, is_fleet, each.shift.share > 0)
        kinds.setdefault((*key, each.shift.is_drift), []).append(each)
    gathered = [_join(own) for several in kinds.values() for own in _near(several)]
    return sorted(gathered, key=lambda each: (each.run.started, each.series.what))


def _near(several: list[SeriesChange]) -> Iterator[list[SeriesChange]]:
    several = sorted(several, key=lambda each: each.shift.place)
    own = [several[0]]
    for each in several[1:]:
        if each.shift.place - own[-1].shift.place > NEAR or each.of != own[-1].of:
            yield own
            own = []
        own.append(each)
    yield own


def _join(several: list[SeriesChange]) -> SeriesChange:
    """Return one change for several: the most frequent place, and the medians of the levels."""
    place = statistics.mode(each.shift.place for each in several)
    first = max(
        (each for each in several if each.shift.place == place),
        key=lambda each: (each.series.bytes, len(each.nodes)),
    )
    # Levels of other sizes are other numbers: those of the largest size stand for all.
    alike = [each.shift for each in several if each.series.bytes == first.series.bytes]
    shift = Shift(
        place,
        first.shift.end,
        statistics.median(each.before for each in alike),
        statistics.median(each.after for each in alike),
        first.shift.is_drift,
    )
    nodes = tuple(sorted({node for each in several for node in each.nodes}))
    sizes = tuple(sorted({size for each in several for size in each.sizes}))
    holds = any(each.holds for each in several)
    return SeriesChange(first.series, shift, first.run, first.number, first.of, nodes, sizes, holds)


def add_events(
    found: Iterable[SeriesChange], events: Sequence[Event], runs: Sequence[SiteRun]
) -> None:
    """Add to each change what changed with it, at most NEAR measuring runs before or after."""
    measuring = [run for run in runs if run.verb == "accept"]
    place = {run.id: number for number, run in enumerate(measuring)}
    for each in found:
        at = place[each.run.id]
        first = measuring[at - NEAR - 1].started if at > NEAR else float("-inf")
        last = measuring[min(at + NEAR, len(measuring) - 1)].started
        each.events = [
            event
            for event in events
            if first < event.run.started <= last
            and (not event.nodes or not each.nodes or {*event.nodes} & {*each.nodes})
        ]
