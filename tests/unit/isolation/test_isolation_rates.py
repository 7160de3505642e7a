"""How often isolation is right, with many nodes and many fleets."""

import random
import re
from pathlib import Path

import pytest
from bench.isolation import table
from bench.rack import table as racks_of_a_day
from bench.replace import table as costs_of_replaced
from tests.madeup.faults import FAULTS, kinds
from tests.madeup.isolation import KINDS, World, leaves, names, rates, solve
from tests.madeup.replaced import USED, trials_of

pytestmark = pytest.mark.program

assert list(kinds(held_out=True))  # they register themselves
DOCS = Path(__file__).parents[3] / "docs/isolation.md"


def test_no_good_node_of_512_is_accused_at_one_percent_noise():
    for seed in range(40):
        world = World(noise=0.01, leaf_of=leaves(512, 32), seed=seed)
        done = solve(512, world, known=seed % 2 == 0)
        assert done.parts == []
        assert done.tests <= 10


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_named_at_512_nodes(kind):
    seen = rates(kind, 512, 32, trials=2)
    assert (seen.found, seen.false) == (1.0, 0.0)
    assert seen.rounds <= 30


def test_no_false_accusation_in_a_thousand_fleets():
    chance = random.Random(2026)
    for seed in range(1000):
        count = chance.choice([5, 6, 7, 8, 9, 12, 16, 17, 24, 33, 48])
        size = chance.choice([count, 4, 8])
        bad = chance.sample(names(count), chance.randint(0, count // 5))
        world = World(
            nodes={node: chance.choice([0.0, 0.25, 0.5, 0.86]) for node in bad},
            noise=0.01,
            leaf_of=leaves(count, size),
            seed=seed,
        )
        done = solve(count, world, known=size < count)
        accused = {part.nodes for part in done.parts if part.proven}
        assert accused <= {(node,) for node in bad}, (seed, count, size, bad, done)


@pytest.mark.long
def test_rates_of_the_docs_are_measured():
    assert table() in DOCS.read_text(encoding="utf-8")


def test_a_fault_that_was_not_repaired_is_named_beside_the_usual_witnesses():
    """`bench/replace.py` has all kinds; here are those that small leaves hid."""
    for name in ("half-slot", "acs", "slow-rail", "override-hca"):
        for beside in USED[:2]:
            trials = trials_of(FAULTS[name], beside, 1, 0)
            assert [(trial.named, trial.false) for trial in trials] == [(True, 0)], (name, beside)


@pytest.mark.hours
def test_costs_of_a_replaced_node_in_the_docs_are_measured():
    assert costs_of_replaced(5)[0] in DOCS.with_name("replaced-node.md").read_text(encoding="utf-8")


def test_racks_of_a_day_are_accepted_in_time_and_faulty_nodes_are_named(tmp_path):
    """`bench/rack.py` has more days; a day that is kept is not run again."""
    kept = tmp_path / "kept"
    text = racks_of_a_day(16, 1, 3, kept)
    rows = {what: cells for what, *cells in (line.split(" | ") for line in text.splitlines()[2:])}
    faulty, good = rows["| faulty nodes named"][0], rows["| good nodes left out"][0]
    assert re.match(r"(\d+) of \1 ", faulty)
    assert good.startswith("0 of 1")
    assert rows["| whole accepted"][0] == "1 of 1"
    assert float(rows["| accepted within 30 min of power-on"][0].removesuffix(" %")) >= 90
    assert float(rows["| whole, after the last power-on, min: most"][0]) <= 45
    assert racks_of_a_day(16, 1, 3, kept) == text
    assert kept.read_text().count("seed") == 1


@pytest.mark.hours
def test_days_of_racks_in_the_docs_are_measured():
    table, _, _ = racks_of_a_day(64, 14).partition("\n\n")
    assert table in DOCS.with_name("units.md").read_text(encoding="utf-8")
