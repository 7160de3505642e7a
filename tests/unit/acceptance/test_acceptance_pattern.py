"""What ranks give in a collective: sums are exact, and each rank and place shows in them."""

from __future__ import annotations

import itertools
import random

import pytest

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
