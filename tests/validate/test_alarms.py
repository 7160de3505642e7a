"""False alarms in what `accept`, `watch` and `compare` measure, each beside the fault next door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.madeup.site import site_nodes
from tests.madeup.watch_faults import FAULTS
from tests.madeup.watched import MadeUpWatch
from tests.madeup.watching import SHAPE, Watching
from tests.unit.acceptance.test_gpu_stage import event, report_of
from tests.unit.helpers import fleet_runs
from tests.unit.helpers.swept_fleets import floor_of, gate_site, swept
from tests.validate.test_faults import ALARMS

from rdmaprov.finding.finding import Finding
from rdmaprov.history.compare import compare
from rdmaprov.history.read_run import read_run
from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters.traffic import rail_traffic

# What is red, what is unknown, and the numbers that a plain rule sees.
_Judged = tuple[set[str], set[str], Mapping[str, float]]
_PLACE = (5, 3)
_RUN_S = 600.0


def _judged(found: Iterable[Finding], numbers: Mapping[str, float]) -> _Judged:
    red, unknown = ({f.kind for f in found if f.proven is proven} for proven in (True, False))
    return red, unknown, numbers


def counters(given: Mapping[str, Any], _place: Path) -> _Judged:
    """Return what a rail counted in ten minutes at 400 Gb/s, and where its counters stand."""
    node = site_nodes(SHAPE)[0]
    before = {**dict.fromkeys(given["after"], 0), **given.get("before", {})}
    at = [
        {"time": s, "rails": [{"counters": c}]} for s, c in ((0, before), (_RUN_S, given["after"]))
    ]
    return _judged(link_errors.findings(rail_traffic(node, *at), lossless=3), given["after"])


def floor(given: Mapping[str, Any], _place: Path) -> _Judged:
    """Return what the gate finds on the largest all-reduce of a fleet."""
    nodes, gpus = given["nodes"], given["gpus"]
    site = gate_site(nodes, gpus, rails=given["rails"], gbps=given["gbps"])
    return _judged(floor_of(site, swept(nodes, gpus, given["gb_s"], given["bytes"]))[1], given)


def gpu(given: Mapping[str, Any], place: Path) -> _Judged:
    """Return what the stage `gpu` finds on a node beside five others."""
    own = {key: value for key, value in given.items() if key not in ("event", "others")}
    first = event(given["event"], **own)
    return _judged(report_of(place, [first, *[event(given["others"])] * 5]).findings, first)


def watch(given: Mapping[str, Any], _place: Path) -> _Judged:
    """Return what a watch of eight nodes says, after some healthy time."""
    made = MadeUpWatch(site_nodes(SHAPE), 2, is_idle=given.get("is_idle", False))
    watching = Watching(made)
    watching.pass_seconds(200)
    seconds = given.get("seconds", 12)
    if "fault" in given:
        made.faults = [FAULTS[given["fault"]].make(_PLACE)]
    watching.pass_seconds(seconds)
    if given.get("after"):
        made.faults = []
        watching.pass_seconds(given["after"])
    numbers = {"traffic": 0.0 if made.is_idle else 1.0, "seconds_below": seconds}
    return _judged(watching.verdicts(), numbers)


def comparison(given: Mapping[str, Any], place: Path) -> _Judged:
    most = given.get("without_above", 1 << 40)
    data = fleet_runs.acceptance(12)
    rows = [row for row in data["planes"][0]["rows"] if row["bytes"] <= most]
    for row in rows:
        row["busbw_gb_s"] *= given.get("slower", 1)
    data["planes"][0]["rows"] = rows
    for one in (fleet_runs.acceptance(10), data):
        fleet_runs.keep(place, one)
    runs = [read_run(each) for each in sorted((place / "runs").iterdir())]
    worse = {each.series.what for each in compare(*runs).measured if each.is_worse}
    mean = sum(row["busbw_gb_s"] for row in rows) / len(rows)
    return worse, set(), {"mean_gb_s": mean}


_JUDGES: Mapping[str, Callable[[Mapping[str, Any], Path], _Judged]] = {
    "counters": counters, "floor": floor, "gpu": gpu, "watch": watch, "compare": comparison,
}  # fmt: skip


@pytest.mark.parametrize("which", ["good", "bad"])
@pytest.mark.parametrize("name", [each for each in ALARMS if "by" in ALARMS[each]])
def test_false_alarm_and_the_fault_next_door(name, which, tmp_path):
    alarm = ALARMS[name]
    given = {**alarm.get("both", {}), **alarm[which]}
    red, unknown, numbers = _JUDGES[alarm["by"]](given, tmp_path)
    seen = [numbers[each] for each in alarm["plain"]["of"] if each in numbers]
    is_red = [
        n > alarm["plain"]["above"] if "above" in alarm["plain"] else n < alarm["plain"]["below"]
        for n in seen
    ]
    assert any(is_red), "the plain rule is silent"
    if which == "good":
        assert (red, unknown) == (set(), set(alarm.get("unknown", ())))
    else:
        assert red == set(alarm["red"])
