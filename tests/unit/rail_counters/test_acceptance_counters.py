"""What counters of rails say after a run: errors by rate, balance, lost packets, priority."""

import copy
import dataclasses
import itertools
import math

import pytest
from tests.unit.helpers.preflight_facts import facts, four_nodes

from rdmaprov.rail_counters import link_errors
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    return four_nodes(tmp_path_factory.mktemp("site"))


RUN_S = 600.0


def counted(node, **changes):
    """Return what two rails counted, whose counters grew by so much on the second."""
    old, new = facts(1), copy.deepcopy(facts(1))
    for number, each in enumerate(new["rails"]):
        each["counters"].update({"port.port_xmit_data": 25_000_000 if number == 0 else 24_000_000})
    for name, value in changes.items():
        kind, _, counter = name.partition("__")
        old["rails"][1]["counters"].setdefault(f"{kind}.{counter}", 0)
        new["rails"][1]["counters"][f"{kind}.{counter}"] = value
    new["time"] += RUN_S
    return counters.rail_traffic(node, old, new)


def test_bytes_are_words_of_four(nodes):
    assert [each.sent_bytes for each in counted(nodes[0])] == [100_000_000, 96_000_000]


def test_errors_that_were_there_before_are_no_findings(nodes):
    rails = counted(nodes[0])
    assert list(link_errors.findings(rails)) == []
    assert list(counters.balance(rails, 0)) == []
    assert list(counters.volume(rails, 180_000_000)) == []


NEVER = ["port__link_downed", "ethtool__link_down_events_phy"]


@pytest.mark.parametrize("name", NEVER)
def test_what_breaks_connections_is_named_at_the_first_event(nodes, name):
    (finding,) = link_errors.findings(counted(nodes[0], **{name: 1}))
    assert (finding.node, finding.rail) == ("n1", 1)
    assert (finding.part, finding.values["most"]) == (name.replace("__", "."), 0)


def test_a_sender_whose_retries_are_used_up_is_not_accused(nodes):
    rails = [*counted(nodes[0], hw__retry_exceeded_err=3), *counted(nodes[1])]
    (finding,) = link_errors.findings(rails)
    assert (finding.kind, finding.nodes, finding.rail) == ("packets.lost", ("n1",), 1)
    assert not finding.proven
    # A link that went down on that rail explains it.
    down = counted(nodes[1], port__link_downed=1)
    assert {f.node for f in link_errors.findings([*rails[:2], *down])} == {nodes[1].name}


RARE = ["port__symbol_error", "ethtool__rx_discards_phy", "hw__rx_icrc_encapsulated"]


@pytest.mark.parametrize("name", RARE)
def test_errors_are_judged_by_the_bits_that_the_line_carried(nodes, name):
    # 400 Gb/s for 600 s at 1e-12: 240 on average; by Poisson, more than 339 are one in a billion.
    assert list(link_errors.findings(counted(nodes[0], **{name: 339}))) == []
    (finding,) = link_errors.findings(counted(nodes[0], **{name: 340}))
    assert (finding.node, finding.rail) == ("n1", 1)
    assert finding.values["most"] == 339
    assert "a rate of 1.4e-12 per bit" in finding.what


def test_a_fleet_at_a_healthy_error_rate_has_no_findings(nodes):
    # 4,096 ports at 1e-15 have about 1,000 errors in these 600 s, and some have three or four.
    for count in range(5):
        assert list(link_errors.findings(counted(nodes[0], port__symbol_error=count))) == []


@pytest.mark.parametrize("mean", [1e-6, 0.005, 0.05, 1, 24, 240, 499])
def test_chance_alone_accuses_one_link_of_a_billion(mean):
    most = link_errors.most_errors(mean / link_errors.MAX_BER)

    def more_than(count):
        first = math.exp((count + 1) * math.log(mean) - mean - math.lgamma(count + 2))
        terms = itertools.accumulate(
            range(count + 2, count + 2000), lambda term, n: term * mean / n, initial=first
        )
        return math.fsum(terms)

    assert more_than(most) < 1e-9 <= more_than(most - 1) * 1.001


def test_errors_of_a_line_whose_time_is_not_known_are_named(nodes):
    rails = [
        dataclasses.replace(each, bits=0.0) for each in counted(nodes[0], port__symbol_error=1)
    ]
    (finding,) = link_errors.findings(rails)
    assert finding.values["most"] == 0


def test_a_link_may_recover_once(nodes):
    assert list(link_errors.findings(counted(nodes[0], port__link_error_recovery=1))) == []
    (finding,) = link_errors.findings(counted(nodes[0], port__link_error_recovery=2))
    assert "2 link recoveries" in finding.what


def test_packets_out_of_order_are_reported_and_no_fault(nodes):
    rails = counted(nodes[0], hw__out_of_sequence=10**6)
    assert list(link_errors.findings(rails)) == []
    assert counters.congestion(rails)["n1 rail 1"]["hw.out_of_sequence"] == 10**6 - 7


def test_the_lossless_priority_discards_nothing(nodes):
    rails = counted(nodes[0], ethtool__rx_prio3_discards=1, ethtool__rx_prio0_discards=300)
    (finding,) = link_errors.findings(rails, 3)
    assert "ethtool.rx_prio3_discards" in finding.what
    assert "--roles roce_qos" in finding.remedy


def test_a_counter_that_fell_says_nothing(nodes):
    rails = counted(nodes[0], hw__out_of_sequence=3)
    assert "hw.out_of_sequence" not in rails[1].delta
    assert list(link_errors.findings(rails)) == []


def test_a_rail_that_sends_little_is_named(nodes):
    (finding,) = counters.balance(counted(nodes[0], port__port_xmit_data=2_000_000), 900_000_000)
    assert (finding.node, finding.rail) == ("n1", 1)


def test_data_that_did_not_take_the_rails_is_named(nodes):
    (finding,) = counters.volume(counted(nodes[0]), 900_000_000)
    assert "its rails sent 0.2 GB, a ring sends 0.9 GB" in finding.what


def test_data_of_the_wrong_priority_is_named(nodes):
    right = counted(nodes[0], ethtool__tx_prio3_bytes=99, ethtool__tx_prio0_bytes=1)
    assert [f for f in counters.priorities(nodes[0], right) if f.rail == 1] == []
    wrong = counted(nodes[0], ethtool__tx_prio3_bytes=1, ethtool__tx_prio0_bytes=99)
    (finding,) = [f for f in counters.priorities(nodes[0], wrong) if f.rail == 1]
    assert "1 % of the bytes had priority 3" in finding.what
    assert "most had 0" in finding.what


def test_priorities_that_nothing_counts_are_not_known(nodes):
    assert {f.proven for f in counters.priorities(nodes[0], counted(nodes[0]))} == {False}


def test_management_that_carries_data_is_named(nodes):
    old, new = facts(1), facts(1)
    new["others"] = {"eth0": 10**9}
    (finding,) = counters.management(nodes[0], old, new, 10**9)
    assert "eth0, which is not a rail, sent 1.0 GB" in finding.what
    new["others"] = {"eth0": 20_000_000}
    assert list(counters.management(nodes[0], old, new, 10**9)) == []


def test_neighbor_table_that_was_full_during_the_run_is_named():
    old, new = {"overflows": {"arp_cache": 7}}, {"overflows": {"arp_cache": 19, "ndisc_cache": 3}}
    [found] = counters.overflows("n1", old, new)
    assert (found.kind, found.part, found.node, found.proven) == (
        "node.neighbors",
        "arp_cache",
        "n1",
        True,
    )
    assert "full 12 times" in found.what
    assert list(counters.overflows("n1", new, new)) == []
    assert list(counters.overflows("n1", {}, new)) == []


RAILS = 4
DUE_BYTES = 10**10


def traffic(*idle: int) -> list[RailTraffic]:
    """Return what the rails of nodes counted, each node with one that sent nothing."""
    return [
        RailTraffic(f"n{node}", rail, {"port.port_xmit_data": 0 if rail == none else 10**9})
        for node, none in enumerate(idle)
        for rail in range(RAILS)
    ]


def named(*idle: int) -> set[tuple[str, str, int | None]]:
    found = counters.balance(traffic(*idle), DUE_BYTES)
    return {(each.level, each.node, each.rail) for each in found}


NO = -1


@pytest.mark.parametrize(
    ("idle", "wanted"),
    [
        ((NO, NO, NO, NO), set()),
        ((NO, 2, NO, NO), {("rail", "n1", 2)}),
        ((3, 2, 3, 3), {("fleet", "", 3), ("rail", "n1", 2)}),
        ((3, 3, 3, 3), {("fleet", "", 3)}),
        ((3, 2, NO, NO), {("rail", "n0", 3), ("rail", "n1", 2)}),
        ((3, 3), {("rail", "n0", 3), ("rail", "n1", 3)}),
    ],
    ids=["all-busy", "one", "others-follow", "all", "two", "fleet-of-two"],
)
def test_idle_rails_are_of_those_that_stand_out(idle, wanted):
    """All ranks use as many channels as the one with the fewest, so others have a rail too many."""
    assert named(*idle) == wanted


def test_what_broadcasts_left_on_unused_rails_makes_none_odd():
    """Seen on two nodes whose NCCL used sockets: rail 1 had "0 % of the mean", of kilobytes."""
    sent = {0: 24_000, 1: 70}
    rails = [RailTraffic("n1", rail, {"netdev.tx_bytes": count}) for rail, count in sent.items()]
    assert list(counters.balance(rails, DUE_BYTES)) == []
    (found,) = counters.volume(rails, DUE_BYTES)
    assert (found.kind, found.node, found.rail) == ("traffic.volume", "n1", None)


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


LEAF_1, BAD_LINK = ("n4", "n5", "n6", "n7"), ((5, 0), 5000)


@pytest.mark.parametrize(
    ("lost", "symbol_error", "named"),
    [
        ({(5, 0): 4000, (4, 0): 2000, (9, 0): 2000}, BAD_LINK, {("rail", ("n5",), 0)}),
        ({(7, 1): 4000}, BAD_LINK, {("rail", ("n5",), 0), ("rail", ("n7",), 1)}),
        ({(5, 0): 4000, (4, 0): 2000, (9, 0): 2100}, None, {("rail", ("n5",), 0)}),
        ({(5, 0): 4000, (4, 0): 4100}, None, {("pair", ("n4", "n5"), 0)}),
        ({(node, 1): 3000 for node in (3, 4, 5, 6, 7)}, None, {("leaf", LEAF_1, 1)}),
        (
            {(node, 1): 3000 if node in (4, 5, 6, 7) else 2000 for node in (0, *range(4, 10), 12)},
            None,
            {("leaf", LEAF_1, 1)},
        ),
        (
            {(node, rail): 3000 for node in (3, 4, 5, 6, 7) for rail in (0, 1)},
            None,
            {("leaf", LEAF_1, None)},
        ),
        ({(node, 0): 300 for node in range(16)}, None, set()),
    ],
    ids=[
        "a bad link and not the senders at its other ends",
        "losses on another rail are not explained by it",
        "the end that misses as much as all its peers",
        "of two ends that miss alike both",
        "a leaf with its rail",
        "senders in other leaves do not hide the leaf",
        "a leaf on all rails is one finding",
        "losses that wrong bits explain accuse nobody",
    ],
)
def test_losses_name_the_part_that_explains_them(lost, symbol_error, named):
    assert judge(lost, **{"port__symbol_error": symbol_error} if symbol_error else {}) == named


def test_losses_everywhere_are_the_fabric_s():
    assert judge({}, leaves={}) == set()
    ((level, nodes, rail),) = judge({(node, 0): 3000 for node in range(16)})
    assert (level, len(nodes), rail) == ("fleet", 16, 0)
