"""The one bad path of a fleet, by all-to-alls among ever fewer nodes."""

import itertools

import pytest
from tests.madeup.fabric_faults import bad_path
from tests.madeup.faults import FaultKind
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.nodes import MadeUpNodes
from tests.madeup.runner import MadeUpRunner
from tests.madeup.shape import usual_shape
from tests.madeup.site import site_nodes

from rdmaprov.acceptance.live.bad_path import find_bad_paths, narrow, slow_rails
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages.preflight import run_preflight


def slow_with(*pairs):
    """Return a fleet in which groups that have both ends of a path are slow; it counts rounds."""
    rounds = []

    def slow(groups):
        rounds.append(groups)
        assert len({name for group in groups for name in group}) == sum(map(len, groups))
        return {group for group in groups if any(set(pair) <= set(group) for pair in pairs)}

    return slow, rounds


@pytest.mark.parametrize("count", [2, 3, 5, 8, 13])
def test_each_path_is_found(count):
    names = tuple(f"n{number}" for number in range(count))
    for pair in itertools.combinations(names, 2):
        slow, rounds = slow_with(pair)
        assert set(narrow(names, slow)) == set(pair)
        assert len(rounds) <= 2 * count.bit_length() + 2


def test_what_comes_and_goes_names_nobody():
    assert narrow(tuple(f"n{number}" for number in range(8)), lambda _groups: set()) == ()


def test_a_rail_is_slow_beside_the_others_of_the_same_nodes():
    group: tuple[str, ...] = ("n0", "n1")
    rates = {(group, local): 40.0 for local in range(8)}
    assert slow_rails({**rates, (group, 3): 5.0})[3] == {group}
    # Where all rails are slow alike, it is the spines.
    assert not any(slow_rails(dict.fromkeys(rates, 5.0)).values())


@pytest.mark.parametrize("seed", [0, 1])
def test_path_of_a_made_up_fleet_is_named_and_a_good_fleet_is_not_accused(seed):
    shape = usual_shape(8)
    for kind in (FaultKind("bad-path", "", "", "pair", bad_path), None):
        fleet = MadeUpFleet(shape, kind, seed)
        result = GateResult(shape.names)
        _, site = run_preflight(result, MadeUpNodes(fleet), site_nodes(shape), Options())
        assert site is not None
        with LiveRanks(site, MadeUpRunner(fleet), "isolation").opened() as live:
            found = [(set(part.nodes), part.rail) for part in find_bad_paths(live)]
        wanted = [({shape.names[n] for n in truth.nodes}, truth.rail) for truth in fleet.truths]
        assert found == wanted
