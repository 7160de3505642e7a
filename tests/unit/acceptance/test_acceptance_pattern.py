"""What ranks give in a collective: sums are exact, and wrong ones show whose they are."""

import itertools
import random

import pytest
from tests.unit.helpers.accept_runs import change, found, healthy, job, say

from rdmaprov.acceptance.agent import pattern
from rdmaprov.acceptance.agent.pattern import (
    ACTIVE,
    MOST_RANKS,
    PERIOD,
    SPAN,
    own,
    pair_rounds,
    summand,
    total,
)
from rdmaprov.acceptance.at_fault import wrong_sums

WORLDS = [1, 2, 3, 7, 8, 9, 16, 64, 511, 512, 4096, 65_528]
# The largest whole number up to which each one is exact: 2 to the bits of the significand.
EXACT = {"bfloat16": 2**8, "float16": 2**11, "float32": 2**24, "int8": 2**7 - 1}


@pytest.mark.parametrize("ranks", WORLDS)
@pytest.mark.parametrize("salt", [0, 1, 977])
def test_sum_is_that_of_all_ranks_and_never_zero(ranks, salt):
    for index in random.Random(ranks).sample(range(PERIOD), 5):
        given = [summand(rank, index, ranks, salt) for rank in range(ranks)]
        assert sum(given) == total(index, ranks, salt) > 0
        assert sum(each != 0 for each in given) == min(ACTIVE, ranks)


@pytest.mark.parametrize("exact", EXACT.values(), ids=EXACT.keys())
def test_partial_sum_is_exact_in_each_type_in_any_order(exact):
    assert exact >= ACTIVE * SPAN
    most = max(
        summand(rank, index, ranks, 0)
        for ranks in (1, 5, 64)
        for rank in range(ranks)
        for index in range(200)
    )
    assert most == SPAN


@pytest.mark.parametrize("ranks", [2, 64, 4096, MOST_RANKS])
def test_every_rank_is_active_somewhere_in_a_period(ranks):
    active = {(ACTIVE * index + k) % ranks for index in range(PERIOD) for k in range(ACTIVE)}
    assert active == set(range(ranks))
    for rank in (0, 1, ranks // 2, ranks - 1):
        where = [index for index in range(PERIOD) if summand(rank, index, ranks, 0)]
        assert where
        # All zeros, or a rank that is left out, is a wrong sum there.
        assert all(summand(rank, index, ranks, 0) > 0 for index in where)


def test_salt_has_other_ranks_take_part_in_a_small_message():
    ranks = 512
    seen = {r for salt in range(64) for r in range(ranks) if summand(r, 0, ranks, salt)}
    assert seen == set(range(ranks))


@pytest.mark.parametrize("ranks", [2, 8, 64, 512])
@pytest.mark.parametrize("power", range(13))
def test_data_a_power_of_two_away_from_its_place_is_wrong(ranks, power):
    wrong = sum(
        total(index, ranks, 0) != total((index + 2**power) % PERIOD, ranks, 0)
        for index in range(PERIOD)
    )
    assert wrong > PERIOD / 4


def test_moved_values_tell_ranks_and_places_apart():
    ranks = [*range(300), 4094, 4095, 12_768]
    rows = {rank: tuple(own(rank, index) for index in range(200)) for rank in ranks}
    assert len(set(rows.values())) == len(ranks)
    assert all(1 <= each <= EXACT["int8"] for row in rows.values() for each in row)
    assert all(row[:100] != row[64:164] for row in rows.values())


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 9, 64, 511])
def test_pairs_of_a_round_are_disjoint_and_each_rank_meets_others(ranks):
    rounds = pair_rounds(ranks)
    assert len(rounds) <= 4
    met: set[tuple[int, int]] = set()
    for pairs in rounds:
        members = list(itertools.chain(*pairs))
        assert len(members) == len(set(members))
        assert not met & set(pairs)
        met |= set(pairs)
    assert min(sum(rank in pair for pair in met) for rank in range(ranks)) >= min(2, ranks - 1)


def wrong(ran, *ranks):
    at = {"plane": "rail 0", "task": 0, "group": 0, "dtype": "float32", "bytes": 4096}
    for rank in ranks:
        say(ran, rank, "wrong", **at, in_place=True, first=[3, 777, 5.0, 2.0], of=1024)


def arrives_wrong(ran, source, *ranks):
    at = {"plane": "rail 0", "task": 0, "group": 0}
    for rank in ranks:
        say(ran, rank, "source", **at, source=source, first=[1, 777, 4.0, 1.0])


def test_whose_values_arrive_wrong_everywhere_sends_them_wrong():
    ran = healthy()
    wrong(ran, 0, 1, 2, 3)
    arrives_wrong(ran, 2, 0, 1, 3)
    (finding,) = wrong_sums.findings(ran)
    assert (finding.node, finding.rail) == ("n2", 0)
    assert "element 777 is 5, expected 2" in finding.what


def test_who_says_alone_that_another_sends_wrong_is_named_itself():
    """Ranks look for a sender after a wrong result: of right ones, nobody can know one."""
    ran = healthy()
    arrives_wrong(ran, 2, 1)
    (finding,) = wrong_sums.findings(ran)
    assert (finding.node, finding.level, finding.proven) == ("n1", "node", True)
    assert "rank 1 says that data from rank 2 arrives wrong" in finding.what


def test_who_alone_sees_wrong_sums_gets_them_wrong():
    ran = healthy()
    wrong(ran, 3)
    arrives_wrong(ran, 0, 3)
    arrives_wrong(ran, 1, 3)
    (finding,) = wrong_sums.findings(ran)
    assert (finding.node, finding.rail, finding.level) == ("n3", 0, "rank")


@pytest.mark.parametrize(
    ("ranks", "wrong_ranks", "arrivals", "named"),
    [
        (4, (0, 1, 2, 3), [], [("", 0)]),
        (2, (0, 1), [(0, 1), (1, 0)], [("", 0)]),
        (2, (0, 1), [(1, 0)], [("n1", 0)]),
        (3, (), [(2, 1)], []),
    ],
    ids=["right values", "two that both hear wrong", "two tell which one", "word against word"],
)
def test_wrong_sums_accuse_who_must_have_sent_them(ranks, wrong_ranks, arrivals, named):
    ran = healthy(job(ranks))
    if wrong_ranks:
        wrong(ran, *wrong_ranks)
    for sender, receiver in arrivals:
        arrives_wrong(ran, sender, receiver)
    assert found(wrong_sums.findings, ran) == named


def tried(ran, pairs, bad):
    for pair in pairs:
        for rank, peer in (pair, pair[::-1]):
            wrong_ones = len({rank, peer} & set(bad))
            say(ran, rank, "witness", plane="rail 0", task=0, group=0, peer=peer, wrong=wrong_ones)


@pytest.mark.parametrize("bad", [{0}, {2}, {1, 6}, {3, 4}, {7}])
def test_rank_that_adds_wrong_is_what_wrong_pairs_have_in_common(bad):
    ran = healthy(job(8))
    wrong(ran, *range(8))
    tried(ran, [pair for pairs in pattern.pair_rounds(8) for pair in pairs], bad)
    found = list(wrong_sums.findings(ran))
    assert {(each.node, each.level) for each in found} == {(f"n{rank}", "rank") for rank in bad}


def test_rank_of_a_large_group_that_sends_wrong_is_found():
    ran = healthy(job(256, 1, rounds=()))
    wrong(ran, *range(256))
    arrives_wrong(ran, 199, *range(199), *range(200, 256))
    (finding,) = wrong_sums.findings(ran)
    assert (finding.node, finding.rail, finding.level) == ("n199", 0, "rank")


def test_only_one_of_two_ranks_is_wrong_and_nobody_is_named():
    ran = healthy(job(2))
    wrong(ran, 0, 1)
    tried(ran, [(0, 1)], {0})
    assert found(wrong_sums.findings, ran) == [("", 0)]


def test_wrong_timed_iteration_is_named():
    ran = healthy()
    wrong(ran, 3)
    change(ran, "wrong", lambda event: event["rank"] == 3, iteration=17)
    (finding,) = wrong_sums.findings(ran)
    assert "3 of 1024 values of timed iteration 17" in finding.what
