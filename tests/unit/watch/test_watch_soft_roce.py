"""What a watch concludes where Soft-RoCE and its device count: units, and what is not counted."""

from __future__ import annotations

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.soft_roce import NAMES, SoftRoceWatch, load

from rdmaprov.watch.columns import missing_counters
from rdmaprov.watch.verdict import line, word

SHAPE = FleetShape(2, gpus=2, rails=2, per_leaf=2)
NEAR, BAD, RAIL = "gpu001", "gpu002", 1
PACKETS = 150  # a second of an emulated node
HEALTHY = {(NEAR, RAIL): load(PACKETS), (BAD, RAIL): load(PACKETS)}
HEALTHY_S = (20, 600)


@pytest.fixture(params=HEALTHY_S, ids=lambda seconds: f"after {seconds} s")
def watch(request):
    """Provide a watch that has seen both nodes under load, without a verdict."""
    made = SoftRoceWatch(site_nodes(SHAPE))
    made.pass_seconds(request.param, HEALTHY)
    assert proven(made) == []
    return made


def proven(watch):
    return [(word(each), each.nodes, each.rail) for each in watch.verdicts() if each.proven]


def bad(counts, near=None):
    return {(NEAR, RAIL): near or load(PACKETS), (BAD, RAIL): counts}


def test_wrong_priority_is_named_by_packets_however_long_the_watch_was(watch):
    assert watch.seconds_until_named(bad(load(PACKETS, priority=0)), BAD, RAIL) <= 9
    watch.pass_seconds(6, bad(load(PACKETS, priority=0)))
    assert proven(watch) == [("priority", (BAD,), RAIL)]
    (text,) = (line(each) for each in watch.verdicts() if each.proven)
    assert "0% of its RDMA can have had priority 3" in text
    assert "most packets had 0 (ethtool -S: tx_prioN_packets)" in text


def test_priority_that_was_wrong_for_a_while_is_still_named_at_the_end(watch):
    watch.pass_seconds(9, bad(load(PACKETS, priority=0)))
    watch.pass_seconds(100, HEALTHY)
    assert proven(watch) == [("priority", (BAD,), RAIL)]


def test_second_with_another_priority_is_no_verdict(watch):
    watch.pass_seconds(1, bad(load(PACKETS, priority=0)))
    watch.pass_seconds(20, HEALTHY)
    assert proven(watch) == []


def test_packets_that_a_queue_drops_have_no_priority(watch):
    """Only what the device sends has one; a fifth of Soft-RoCE's packets never gets there."""
    watch.pass_seconds(30, bad(load(PACKETS, sent=int(0.8 * PACKETS))))
    assert proven(watch) == []


def test_flap_between_two_reads_is_named_with_its_own_node_alone(watch):
    """The peer's connections end meanwhile; each read finds the link up."""
    flap = {**load(PACKETS), "hw.link_downed": 1}
    near = {**load(PACKETS), "hw.completer_retry_err": 9, "hw.retry_exceeded_err": 1}
    assert watch.seconds_until_named(bad(flap, near), BAD, RAIL) <= 3
    assert proven(watch) == [("link", (BAD,), RAIL)]
    (text,) = (line(each) for each in watch.verdicts() if each.proven)
    assert "flaps: it went down 3 times" in text


def test_link_that_is_seen_down_each_other_second_flaps(watch):
    for _ in range(3):
        watch.pass_seconds(1, bad({"down": 1, "carrier_changes": 1}))
        watch.pass_seconds(1, bad({**load(PACKETS), "carrier_changes": 1}))
    assert proven(watch) == [("link", (BAD,), RAIL)]


def test_path_that_loses_packets_is_named_with_both_ends(watch):
    """Gaps are NAKed to the sender, whose own answers are lost, too, and time out at the peer."""
    far = {**load(PACKETS), "hw.rcvd_seq_err": 20, "hw.completer_retry_err": 24}
    near = {**load(PACKETS), "hw.out_of_seq_request": 20, "hw.completer_retry_err": 5}
    assert watch.seconds_until_named(bad(far, near), BAD, RAIL) <= 9
    assert proven(watch) == [("loss", (NEAR, BAD), RAIL)]
    (text,) = (line(each) for each in watch.verdicts() if each.proven)
    assert "at an end of these paths or in a switch, which counters do not tell" in text


def test_connection_whose_retries_are_used_up_accuses_no_end(watch):
    near = {**load(PACKETS), "hw.completer_retry_err": 1, "hw.retry_exceeded_err": 1}
    watch.pass_seconds(9, bad({}, near))
    (found,) = [each for each in watch.verdicts() if each.proven]
    assert (word(found), found.rail) == ("loss", RAIL)
    assert "which counters do not tell" in found.text


def test_receiver_without_buffer_is_named_alone(watch):
    far = {**load(PACKETS), "ethtool.rx_prio3_discards": 30, "ethtool.rx_discards_phy": 30}
    near = {**load(PACKETS), "hw.rcvd_seq_err": 20, "hw.retry_exceeded_err": 1}
    assert watch.seconds_until_named(bad(far, near), BAD, RAIL) <= 3
    assert proven(watch) == [("loss", (BAD,), RAIL)]


def test_slow_rail_of_nodes_that_carry_little_is_not_verified(watch):
    watch.pass_seconds(20, bad(load(PACKETS // 10), load(PACKETS // 10)))
    texts = [line(each) for each in watch.verdicts()]
    assert proven(watch) == []
    assert any("imbalance: no rail carried 1% of its line rate" in each for each in texts), texts


def test_slow_rail_of_busy_nodes_is_named_as_one_of_two(watch):
    """Both nodes move less on it, as they exchange packets with each other alone."""
    many = 4_000_000  # a third of 400 Gb/s
    told = {
        (node, rail): load(many if rail == 0 else many // 4)
        for node in (NEAR, BAD)
        for rail in (0, 1)
    }
    # A rail on its own is not low while nothing runs on the other.
    assert watch.seconds_until_named(told, BAD, RAIL) <= 9
    assert {kind for kind, *_ in proven(watch)} == {"imbalance"}
    assert not any("imbalance: no rail" in line(each) for each in watch.verdicts())


def test_pauses_marks_and_notifications_that_are_not_counted_are_unknown(watch):
    (text,) = (line(each) for each in watch.verdicts() if "no counter of" in line(each))
    assert "ECN marks" in text
    assert "CNPs" in text
    assert "RDMA by priority" not in text


@pytest.mark.parametrize(
    "left_out", ["hw.sent_pkts", "ethtool.tx_prio0_packets"], ids=["RDMA", "priorities"]
)
def test_priorities_are_unknown_where_one_side_is_not_counted(left_out):
    node = site_nodes(SHAPE)[0]
    keys = [(rail, name) for rail in (0, 1) for name in NAMES if name != left_out]
    assert any(each.startswith("RDMA by priority") for each in missing_counters(node, keys))
