"""Who is at fault, always or at times or by a wrong leaf: found in few rounds, nobody accused."""

import random
from itertools import combinations

import pytest
from tests.madeup.isolation import World, leaves, names, solve, subject

from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE, least_good, reference
from rdmaprov.isolation.locate import FleetSearch, locate
from rdmaprov.isolation.meetings import Meetings, pair_key, round_robin
from rdmaprov.isolation.placement import misplaced, placement_rounds


def found(count, **what):
    return solve(count, World(noise=0.01, **what))


# --- what is bad -----------------------------------------------------------------------------


def test_a_round_is_compared_with_itself():
    assert reference([400, 396, 404, 398]) == 404
    assert least_good([400] * 4) == BAD_SHARE * 400
    assert least_good([]) == 0
    # Most of a round may be bad.
    assert reference([400, 400, *[200] * 8]) == 400


def test_partners_stand_in_the_order_of_their_tests():
    # Words and choices follow from it, and a set's order is another one in each run.
    met, (first, *others) = Meetings(), names(32)
    met.add({(first, other): 400.0 for other in reversed(others)})
    assert met.partners(first, bad=False) == others[::-1]


@pytest.mark.parametrize("sigma", [0.03, 0.05])
def test_noise_lowers_the_limit(sigma):
    chance = random.Random(1)
    rates = [400 * (1 + chance.gauss(0, sigma)) for _ in range(256)]
    assert GLOO_BAD_SHARE * 400 <= least_good(rates) < BAD_SHARE * 400
    assert least_good(rates) < min(rates)


# --- what the floor refuses is seen ------------------------------------------------------------


@pytest.mark.parametrize("share", [0.46, 0.56, 0.70, 0.86])
@pytest.mark.parametrize("count", [3, 4, 5, 8, 9, 16, 33, 64])
def test_a_slow_node_is_named(count, share):
    for index in {0, count // 2, count - 1}:
        done = found(count, nodes={f"n{index}": share})
        [part] = done.parts
        assert (part.kind, part.nodes, part.proven) == ("node", (f"n{index}",), True)
        assert done.tests <= (24 if count <= 16 else 12)


@pytest.mark.parametrize("count", [4, 5, 8, 9, 16])
def test_any_two_slow_nodes_are_named(count):
    for one, other in combinations(names(count), 2):
        done = found(count, nodes={one: 0.5, other: 0.5})
        if count > 4:  # of four, two good ones cannot outvote them
            assert {part.nodes for part in done.parts} == {(one,), (other,)}


def test_half_of_a_fleet_is_named():
    bad = dict.fromkeys(random.Random(3).sample(names(32), 16), 0.5)
    assert {part.nodes for part in found(32, nodes=bad).parts} == {(name,) for name in bad}


@pytest.mark.parametrize(("one", "other"), [(0, 1), (3, 4), (0, 7), (2, 6)])
def test_a_pairs_path_is_a_pair(one, other):
    pair = pair_key(f"n{one}", f"n{other}")
    [part] = found(8, pairs={pair: 0.5}).parts
    assert (part.kind, set(part.nodes), part.proven) == ("pair", set(pair), True)


def test_a_node_that_several_bad_paths_have_in_common_is_the_suspect():
    """Of three nodes, two are not accused for what the third one does with them."""
    [part] = found(8, pairs={pair_key("n0", other): 0.5 for other in ("n3", "n5")}).parts
    assert (part.kind, part.nodes, part.proven) == ("node", ("n0",), False)
    assert "n3, n5, which pass with others" in part.why


def test_a_path_that_passes_again_is_not_sure():
    bad, slow = pair_key("n2", "n6"), 3

    def measure(pairs):
        nonlocal slow
        slow -= bad in pairs
        return {pair: 200.0 if pair == bad and slow >= 0 else 400.0 for pair in pairs}

    [part] = locate(FleetSearch(names(8), measure))
    assert (part.kind, set(part.nodes), part.proven) == ("pair", {"n2", "n6"}, False)
    assert "it comes and goes" in part.why


@pytest.mark.parametrize("slow", [(2, 3), (5, 6), (1, 2, 4), (2, 3, 4, 5, 6)])
def test_slow_rounds_over_gloo_are_no_fault(slow):
    """The processors that ranks share were busy with something else for a while."""
    rounds = []

    def measure(pairs):
        rounds.append(pairs)
        return dict.fromkeys(pairs, 10.0 if len(rounds) in slow else 100.0)

    assert locate(FleetSearch(names(4), measure, share=GLOO_BAD_SHARE)) == []
    assert len(rounds) > max(slow)


@pytest.mark.parametrize(
    ("count", "size", "fault"),
    [
        *((64, 8, {"uplinks": {"leaf2": share}}) for share in (0.46, 0.56)),
        (8, 2, {"uplinks": {"leaf2": 0.5}}),
        (64, 16, {"under": {"leaf2": 0.4}}),
    ],
)
def test_a_leaf_with_few_uplinks_or_that_loses_is_named(count, size, fault):
    [part] = found(count, **fault, leaf_of=leaves(count, size)).parts
    assert (part.kind, part.name, part.proven) == ("leaf", "leaf2", True)
    assert set(part.nodes) == {f"n{index}" for index in range(2 * size, 3 * size)}


@pytest.mark.parametrize(("count", "size"), [(64, 16), (8, 2)])
def test_an_oversubscribed_fabric_is_no_leaf(count, size):
    [part] = found(count, spines=0.45, leaf_of=leaves(count, size)).parts
    assert (part.kind, part.proven) == ("fleet", True)
    assert "45 %" in part.why or "46 %" in part.why or "44 %" in part.why


@pytest.mark.parametrize("known", [True, False])
def test_paths_that_collide_are_no_nodes(known):
    world = World(collisions=0.3, noise=0.01, leaf_of=leaves(64, 8))
    assert {part.kind for part in solve(64, world, known=known).parts} == {"fleet"}


@pytest.mark.parametrize("alone", [True, False])
def test_pairs_that_are_slow_beside_each_other_alone_are_no_bad_paths(alone):
    both = {("n0", "n2"), ("n1", "n3")}

    class Crowded(World):
        """What two pairs send between two leaves takes one uplink of two."""

        def measure(self, pairs):
            reached = super().measure(pairs)
            is_slow = both <= set(reached) or not alone
            return {p: rate * (0.5 if is_slow and p in both else 1) for p, rate in reached.items()}

    parts = solve(4, Crowded(leaf_of=leaves(4, 2), noise=0.01)).parts
    if alone:
        [part] = parts
        assert (part.kind, part.proven) == ("fleet", False)
    else:
        assert {part.nodes for part in parts if part.kind == "pair"} == both


def test_of_two_leaves_nothing_tells_which():
    done = found(16, uplinks={"leaf0": 0.5}, leaf_of=leaves(16, 8))
    assert {part.proven for part in done.parts if part.kind == "leaf"} <= {False}
    assert done.parts


def test_a_node_and_a_leaf_are_both_named():
    done = found(64, nodes={"n3": 0.5}, uplinks={"leaf5": 0.5}, leaf_of=leaves(64, 8))
    assert {subject(part) for part in done.parts} == {("n3",), ("leaf5",)}


# --- what cannot be told ---------------------------------------------------------------------


def small_leaves(sizes):
    names_ = iter(names(sum(sizes)))
    return {next(names_): f"leaf{leaf}" for leaf, size in enumerate(sizes) for _ in range(size)}


@pytest.mark.parametrize(
    "sizes", [(2, 1), (3, 2), (2, 2), (1, 1, 1), (2, 2, 1), (3, 1, 1), (2,) * 4]
)
def test_in_small_leaves_a_slow_node_is_a_node(sizes):
    """Its only neighbour is no part of it, and a leaf with one node tested is not told from it."""
    leaf_of = small_leaves(sizes)
    for node, leaf in leaf_of.items():
        parts = found(sum(sizes), nodes={node: 0.5}, leaf_of=leaf_of).parts
        alone = list(leaf_of.values()).count(leaf) == 1
        if alone and len(sizes) == 2:
            assert not parts  # no good path between two leaves to compare with
            continue
        [part] = parts
        assert (part.kind, part.nodes, part.proven) == ("node", (node,), not alone)
        assert (f"no other node of {leaf} was tested" in part.why) == alone


def test_a_node_that_is_slow_only_beside_a_bad_one_is_not_accused():
    class Shared(World):
        """What n0 sends by the wrong rails fills the uplinks that n1 has, too."""

        def measure(self, pairs):
            reached = super().measure(pairs)
            crowded = any("n0" in pair and self._is_across(pair) for pair in pairs)
            return {
                pair: rate * 0.7 if crowded and "n1" in pair and self._is_across(pair) else rate
                for pair, rate in reached.items()
            }

    [part] = solve(8, Shared(nodes={"n0": 0.5}, leaf_of=leaves(8, 2), noise=0.01)).parts
    assert (part.kind, part.nodes) == ("node", ("n0",))


@pytest.mark.parametrize(
    ("count", "slow", "kinds"),
    [
        (2, {"n0": 0.5}, []),
        (2, {"n0": 0.0}, [("pair", False)]),
        (64, dict.fromkeys(names(64), 0.5), []),
    ],
    ids=["two alone are alike", "two that hang are a pair", "a fleet that is slow everywhere"],
)
def test_of_nodes_that_are_alike_none_is_accused(count, slow, kinds):
    assert [(part.kind, part.proven) for part in found(count, nodes=slow).parts] == kinds


def test_nodes_that_give_no_result_are_left_out():
    world = World(noise=0.01)

    def measure(pairs):
        return world.measure([pair for pair in pairs if "n4" not in pair])

    search = FleetSearch(names(16), measure)
    assert (locate(search), search.tests < 20) == ([], True)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 16, 33, 64])
def test_round_robin_meets_all_pairs_once(count):
    rounds = list(round_robin(names(count)))
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert all(len({node for pair in pairs for node in pair}) == 2 * len(pairs) for pairs in rounds)


def test_round_robin_of_one_has_no_round():
    assert list(round_robin(["a"])) == []


def test_a_hang_is_told_and_is_not_repeated():
    seen: list[int] = []
    world = World(nodes={"n5": 0.0}, noise=0.01)

    def measure(pairs):
        seen.append(sum("n5" in pair for pair in pairs))
        return world.measure(pairs)

    [part] = locate(FleetSearch(names(16), measure))
    assert (part.nodes, part.hang) == (("n5",), True)
    assert sum(seen) <= 20  # none of the 15 pairs twice


def at_times(world, node, duty, seed):
    chance = random.Random(seed)

    def measure(pairs):
        is_slow = chance.random() < duty
        return {
            pair: rate * (0.5 if is_slow and node in pair else 1)
            for pair, rate in world.measure(pairs).items()
        }

    return measure


@pytest.mark.parametrize(("count", "size"), [(9, 9), (16, 4), (64, 16)])
def test_a_node_that_is_slow_at_times_is_named(count, size):
    named = 0
    for seed in range(20):
        leaf_of, node = leaves(count, size), f"n{seed * 7 % count}"
        world = World(noise=0.01, leaf_of=leaf_of, seed=seed)
        parts = locate(FleetSearch(names(count), at_times(world, node, 0.35, seed), leaf_of))
        assert all(node in part.nodes for part in parts), parts
        assert not any(part.proven for part in parts if part.nodes != (node,))
        named += any(part.nodes == (node,) for part in parts)
    assert named >= 19


def test_a_node_that_hangs_at_times_is_named_with_its_hang():
    count = 0

    def measure(pairs):
        nonlocal count
        count += 1
        return {pair: 0.0 if count % 3 == 0 and "n5" in pair else 400.0 for pair in pairs}

    [part] = locate(FleetSearch(names(8), measure))
    assert (part.kind, part.nodes, part.hang) == ("node", ("n5",), True)


def test_a_path_that_is_slow_at_times_accuses_neither_node():
    for seed in range(20):
        chance, bad = random.Random(seed), pair_key("n2", "n6")

        def measure(pairs, chance=chance, bad=bad):
            slow = chance.random() < 0.5
            return {pair: 200.0 if slow and pair_key(*pair) == bad else 400.0 for pair in pairs}

        parts = locate(FleetSearch(names(16), measure))
        assert all(set(part.nodes) == set(bad) for part in parts), parts


NEAR_US, FAR_US = 9.0, 10.5


def latencies(stated, really, *, noise=0.01, seed=0, slow=()):
    """Return what the rounds measure in a fabric in which nodes are really under some leaves."""
    chance = random.Random(seed)
    return {
        (one, other): (NEAR_US if really[one] == really[other] else FAR_US) * chance.gauss(1, noise)
        + sum(slow[node] for node in (one, other) if node in slow)
        for pairs in placement_rounds(stated)
        for one, other in pairs
    }


@pytest.mark.parametrize(("count", "size"), [(12, 3), (16, 4), (64, 16), (512, 32)])
def test_a_node_under_another_leaf_is_named(count, size):
    stated = leaves(count, size)
    for number in (0, count // 2, count - 1):
        node = f"n{number}"
        other = next(leaf for leaf in stated.values() if leaf != stated[node])
        [part] = misplaced(latencies(stated, {**stated, node: other}), stated)
        assert (part.kind, part.nodes, part.proven) == ("node", (node,), False)
        assert f"not under {stated[node]} as the site says" in part.why
        assert "lldpctl" in part.remedy


def test_of_cables_as_stated_nobody_is_named():
    stated = leaves(64, 16)
    for seed in range(200):
        assert misplaced(latencies(stated, stated, seed=seed), stated) == []


@pytest.mark.parametrize("us", [1.5, 3.0, 300.0])
def test_a_node_that_is_slow_wherever_it_is_is_not_misplaced(us):
    stated = leaves(64, 16)
    assert misplaced(latencies(stated, stated, slow={"n9": us}), stated) == []


def test_where_latencies_scatter_they_say_nothing():
    stated = leaves(64, 16)
    assert misplaced(latencies(stated, {**stated, "n9": "leaf3"}, noise=0.05), stated) == []


def test_leaves_that_mean_something_else_accuse_nobody():
    stated, racks = leaves(64, 16), {f"n{number}": str(number % 8) for number in range(64)}
    assert misplaced(latencies(stated, racks), stated) == []


def test_pairs_that_were_not_measured_are_no_evidence():
    stated = leaves(16, 4)
    assert misplaced({}, stated) == []
    assert misplaced(dict.fromkeys(latencies(stated, stated), 0.0), stated) == []


@pytest.mark.parametrize("stated", [{}, leaves(16, 16), leaves(16, 2), dict.fromkeys(names(9), "")])
def test_a_site_whose_leaves_say_nothing_costs_no_round(stated):
    assert list(placement_rounds(stated)) == []


def test_a_round_has_each_node_once():
    for pairs in placement_rounds(leaves(50, 7)):
        nodes = [node for pair in pairs for node in pair]
        assert nodes
        assert len(nodes) == len(set(nodes))
