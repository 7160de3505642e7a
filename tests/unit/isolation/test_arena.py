"""The arena's fabrics are those of isolation, and its strategies and its order are as described."""

import numpy as np
import pytest
from bench.arena import Result, first, judge, main, make_fabric
from bench.strategies import STRATEGIES, Accused, Fabric
from click.testing import CliRunner
from tests.madeup.isolation import World, leaves

COUNT, SIZE = 16, 4
LEAF = np.arange(COUNT) // SIZE


def fabric(**more):
    own = {"nodes": np.ones(COUNT), "leaf": LEAF, "uplinks": np.ones(COUNT // SIZE)}
    return Fabric(**(own | more))


def slow(*nodes, share=0.5):
    rates = np.ones(COUNT)
    rates[list(nodes)] = share
    return rates


def test_pairs_reach_what_they_reach_in_the_world_of_isolation():
    nodes, uplinks = slow(3), np.array([1, 0.5, 1, 1])
    made = fabric(nodes=nodes, uplinks=uplinks, paths={(0, 9): 0.4})
    world = World(
        nodes={"n3": 0.5},
        pairs={("n0", "n9"): 0.4},
        uplinks={"leaf1": 0.5},
        leaf_of=leaves(COUNT, SIZE),
    )
    for shift in (1, 4, 9):
        pairs = [(n, (n + shift) % COUNT) for n in range(0, COUNT, 2)]
        pairs = [p for at, p in enumerate(pairs) if not any(set(p) & set(q) for q in pairs[:at])]
        want = world.measure([(f"n{a}", f"n{b}") for a, b in pairs])
        both = np.array(pairs)
        assert made.measure_pairs(both[:, 0], both[:, 1]).tolist() == list(want.values())
        assert made.measure(pairs).tolist() == list(want.values())


def test_a_ring_is_as_slow_as_its_slowest_path():
    made = fabric(paths={(1, 2): 0.3})
    assert made.measure([(0, 1, 2, 3), (4, 5, 6, 7)]).tolist() == [0.3, 1.0]
    assert made.measure([(1, 0, 2, 3)]).tolist() == [1.0]  # the two are no neighbours


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_node_that_is_slow_is_named(name):
    found = STRATEGIES[name](fabric(nodes=slow(6)))
    assert {Accused("node", frozenset((6,)))} <= set(found)
    assert len({node for each in found for node in each.nodes}) == 1


@pytest.mark.parametrize(
    ("name", "nodes", "accused"),
    [
        ("ROCm/cvs", slow(0), set(range(1, COUNT))),  # a bad reference: all others are excluded
        ("Megatron-LM", slow(6, share=0.93), set()),  # less than 10 %
        ("Primus-SaFE", slow(6, share=0.88), set()),  # above its 0.85
        ("gcm", slow(6, share=0.88), {6}),
    ],
)
def test_a_strategy_errs_where_its_description_does(name, nodes, accused):
    found = STRATEGIES[name](fabric(nodes=nodes))
    assert {node for each in found for node in each.nodes} == accused


def test_who_is_first_has_the_fewest_false_accusations_then_faults_then_minutes():
    def results(named, false, seconds):
        return [Result(1, named, 1, false, 1, seconds)] * 20

    own = {"a": results(1, 0, 90), "b": results(1, 0, 60), "c": results(0, 0, 1)}
    assert first({**own, "d": results(1, 1, 1)}) == ["b"]
    assert first({**own, "e": results(1, 0, 65)}) == ["b", "e"]
    few = {name: each[:5] for name, each in own.items()}  # 5 of 5 is chance in one of 16
    assert first(few) == ["c"]


def test_a_leaf_is_named_by_itself_or_by_all_its_nodes():
    leaf = Accused("leaf", frozenset(range(4)))
    single = [Accused("node", frozenset((n,))) for n in range(4)]
    made = fabric()
    assert judge([leaf], [leaf], made).named == judge(single, [leaf], made).named == 1
    assert (judge(single[:3], [leaf], made).named, judge(single[:3], [leaf], made).false) == (0, 0)


def test_a_seed_prints_the_same_table_and_kept_results_are_not_measured_again(
    tmp_path, monkeypatch
):
    kept = str(tmp_path / "kept")
    words = ["--nodes", "16", "--trials", "2", "--cells"]
    alone, kept_first = (
        CliRunner().invoke(main, [*words, *more]) for more in ((), ("--kept", kept))
    )
    assert alone.exit_code == 0, alone.output
    for name in STRATEGIES:
        monkeypatch.setitem(STRATEGIES, name, lambda _fabric: pytest.fail("measured again"))
    again = CliRunner().invoke(main, [*words, "--kept", kept])
    assert alone.stdout == kept_first.stdout == again.stdout
    assert again.stdout.count("\n| 16 | rdmaprov") == 1


@pytest.mark.program
def test_rdmaprov_names_more_and_accuses_fewer_than_halves_at_64_nodes():
    cell = (64, 3, 0.01, "rail-optimised")
    made = {}
    for name in ("rdmaprov", "sichek"):
        runs = [make_fabric(cell, seed) for seed in range(20)]
        made[name] = [judge(STRATEGIES[name](world), truths, world) for world, truths in runs]
    own, other = (sum(r.named for r in made[name]) for name in made)
    assert own > other
    assert sum(r.false for r in made["rdmaprov"]) <= sum(r.false for r in made["sichek"])
