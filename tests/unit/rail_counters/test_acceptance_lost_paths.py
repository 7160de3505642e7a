"""Packets that only their senders miss: which leaf, end or path lost them."""

from __future__ import annotations

from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters.traffic import RailTraffic

BITS = 400e9 * 600
LEAVES = {f"n{number}": f"leaf{number // 4}" for number in range(16)}


def rails(lost, **here):
    """Return what 16 nodes counted on two rails: lost packets by node and rail, and own errors."""
    return [
        RailTraffic(
            f"n{node}",
            rail,
            {"hw.packet_seq_err": lost.get((node, rail), 0)}
            | {
                name.replace("__", "."): count
                for name, (at, count) in here.items()
                if at == (node, rail)
            },
            BITS,
        )
        for node in range(16)
        for rail in range(2)
    ]


def judge(lost, leaves=LEAVES, **here):
    found = link_errors.findings(rails(lost, **here), leaves=leaves)
    return {(each.level, each.nodes, each.rail) for each in found}


def test_a_bad_link_is_named_and_not_the_senders_at_its_other_ends():
    lost = {(5, 0): 4000, (4, 0): 2000, (9, 0): 2000}
    assert judge(lost, port__symbol_error=((5, 0), 5000)) == {("rail", ("n5",), 0)}


def test_losses_on_another_rail_are_not_explained_by_it():
    found = judge({(7, 1): 4000}, port__symbol_error=((5, 0), 5000))
    assert found == {("rail", ("n5",), 0), ("rail", ("n7",), 1)}


def test_the_end_that_misses_as_much_as_all_its_peers_is_named():
    assert judge({(5, 0): 4000, (4, 0): 2000, (9, 0): 2100}) == {("rail", ("n5",), 0)}


def test_of_two_ends_that_miss_alike_both_are_named():
    assert judge({(5, 0): 4000, (4, 0): 4100}) == {("pair", ("n4", "n5"), 0)}


def test_a_leaf_that_loses_packets_is_named_with_its_rail():
    lost = {(node, 1): 3000 for node in (4, 5, 6, 7)} | {(3, 1): 3000}
    assert judge(lost) == {("leaf", ("n4", "n5", "n6", "n7"), 1)}


def test_senders_in_other_leaves_do_not_hide_the_leaf():
    lost = {(node, 1): 3000 for node in (4, 5, 6, 7)} | {(node, 1): 2000 for node in (0, 8, 9, 12)}
    assert judge(lost) == {("leaf", ("n4", "n5", "n6", "n7"), 1)}


def test_a_leaf_that_loses_packets_on_all_rails_is_one_finding():
    lost = {(node, rail): 3000 for node in (3, 4, 5, 6, 7) for rail in (0, 1)}
    assert judge(lost) == {("leaf", ("n4", "n5", "n6", "n7"), None)}


def test_losses_everywhere_are_the_fabric_s():
    lost = {(node, 0): 3000 for node in range(16)}
    ((level, nodes, rail),) = judge(lost)
    assert (level, len(nodes), rail) == ("fleet", 16, 0)


def test_losses_that_wrong_bits_explain_accuse_nobody():
    assert judge({(node, 0): 300 for node in range(16)}) == set()
    assert judge({}, leaves={}) == set()
