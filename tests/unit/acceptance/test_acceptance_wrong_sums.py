"""Whose sums are wrong: who sends wrong values, who adds wrong, and where nobody is accused."""

from __future__ import annotations

import pytest
from tests.unit.helpers.accept_runs import change, found, healthy, job, say

from rdmaprov.acceptance.agent import pattern
from rdmaprov.acceptance.at_fault import wrong_sums


def wrong(ran, *ranks):
    for rank in ranks:
        say(
            ran,
            rank,
            "wrong",
            plane="rail 0",
            task=0,
            group=0,
            dtype="float32",
            bytes=4096,
            in_place=True,
            first=[3, 777, 5.0, 2.0],
            of=1024,
        )


def arrives_wrong(ran, source, *ranks):
    for rank in ranks:
        say(
            ran,
            rank,
            "source",
            plane="rail 0",
            task=0,
            group=0,
            source=source,
            first=[1, 777, 4.0, 1.0],
        )


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


def test_one_word_against_another_names_nobody():
    ran = healthy(job(3))
    arrives_wrong(ran, 2, 1)
    assert list(wrong_sums.findings(ran)) == []


def test_who_blames_another_is_not_named_where_results_are_wrong():
    ran = healthy()
    wrong(ran, 0, 1, 2, 3)
    arrives_wrong(ran, 2, 0, 1, 3)
    assert found(wrong_sums.findings, ran) == [("n2", 0)]


def test_two_ranks_tell_which_one_sends_wrong():
    ran = healthy(job(2))
    wrong(ran, 0, 1)
    arrives_wrong(ran, 1, 0)
    assert found(wrong_sums.findings, ran) == [("n1", 0)]


def test_who_alone_sees_wrong_sums_gets_them_wrong():
    ran = healthy()
    wrong(ran, 3)
    arrives_wrong(ran, 0, 3)
    arrives_wrong(ran, 1, 3)
    assert found(wrong_sums.findings, ran) == [("n3", 0)]


def test_wrong_sums_everywhere_of_right_values_accuse_nobody():
    ran = healthy()
    wrong(ran, 0, 1, 2, 3)
    assert found(wrong_sums.findings, ran) == [("", 0)]


def tried(ran, pairs, bad):
    """Have ranks report the results of pairs, which are wrong with some ranks."""
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


def test_two_ranks_that_both_hear_wrong_accuse_nobody():
    ran = healthy(job(2))
    wrong(ran, 0, 1)
    arrives_wrong(ran, 0, 1)
    arrives_wrong(ran, 1, 0)
    assert found(wrong_sums.findings, ran) == [("", 0)]
