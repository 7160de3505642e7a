"""What a watch concludes of made-up fleets and Soft-RoCE: a fault alone, a victim never."""

from copy import deepcopy
from functools import cache, partial

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.soft_roce import NAMES, SoftRoceWatch, load
from tests.madeup.watch_faults import AT_TIMES, FAULTS, alone
from tests.madeup.watched import Fleet, MadeUpWatch
from tests.madeup.watching import SHAPE, Watching, is_pair_right, is_right, watch_fault
from tests.tables import cases

from rdmaprov.exit_codes import ExitCode
from rdmaprov.watch.columns import missing_counters
from rdmaprov.watch.results import WatchResult
from rdmaprov.watch.verdict import line, word

PLACE = (5, 3)


def code(watching: Watching) -> ExitCode:
    return WatchResult(watching.fleet(), watching.verdicts()).exit_code()


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_its_rail_and_nobody_else(name):
    watching = watch_fault(FAULTS[name], PLACE, 1, 12)
    verdicts = watching.verdicts()
    assert is_right(FAULTS[name], PLACE, verdicts), [line(each) for each in verdicts]
    assert code(watching) is ExitCode.FAILED
    for each in verdicts:
        if each.nodes == (SHAPE.names[PLACE[0]],):
            assert line(each).startswith("gpu006 rail 3 (leaf leaf02): ")


@cache
def healthy(seconds, shape):
    """Return a watch that was healthy so long; what goes on with it is a copy."""
    return watch_fault(None, PLACE, 2, seconds, shape)


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_within_ten_seconds_of_a_long_watch(name):
    """Judged every three seconds, after fourty healthy ones."""
    fault = FAULTS[name]
    watching = deepcopy(healthy(40, SHAPE))
    watching.watch.faults = [fault.make(PLACE)]
    assert not watching.verdicts()
    watching.pass_seconds(8)
    assert {word(each) for each in watching.verdicts()} & {*fault.kinds, "victim"}


@pytest.mark.parametrize(
    "name", ["bad cable", "lossy switch port", "no buffer", "wrong priority", "slow rail"]
)
def test_fault_is_named_as_soon_where_the_healthy_time_was_long(name):
    """What a rate or a share allows in minutes is more than a fault makes in seconds."""
    fault = FAULTS[name]
    watching = deepcopy(healthy(400, FleetShape(3, rails=8, per_leaf=3)))
    watching.watch.faults = [fault.make((1, PLACE[1]))]
    assert not watching.verdicts()
    watching.pass_seconds(9)
    assert {word(each) for each in watching.verdicts()} == set(fault.kinds)


def test_phase_in_which_a_rail_does_less_is_no_verdict_when_it_is_over():
    watching = watch_fault(None, PLACE, 2, 200)
    watching.watch.faults = [FAULTS["slow rail"].make(PLACE)]
    watching.pass_seconds(8)
    (now,) = watching.verdicts()
    assert (word(now), now.nodes) == ("imbalance", (SHAPE.names[PLACE[0]],))
    watching.watch.faults = []
    watching.pass_seconds(4)
    assert not watching.verdicts()


@pytest.mark.parametrize("name", AT_TIMES)
def test_fault_of_every_other_second_is_named_too_and_nobody_else_meanwhile(name):
    fault, watching = AT_TIMES[name], deepcopy(healthy(40, SHAPE))
    watching.watch.faults = [fault.make(PLACE)]
    for _ in range(10):
        watching.pass_seconds(3)
        verdicts = watching.verdicts()
        assert {word(each) for each in verdicts} <= {*fault.kinds, "victim"}
    assert is_right(fault, PLACE, verdicts), [line(each) for each in verdicts]


@pytest.mark.parametrize(("one", "other"), cases(__file__, "two_faults_at_once_are_both_named"))
def test_two_faults_at_once_are_both_named(one, other):
    assert is_pair_right((FAULTS[one], FAULTS[other]), (PLACE, (2, 6)), 1, 12)


@pytest.mark.parametrize("seed", range(4))
def test_healthy_fleet_under_load_gets_no_verdict(seed):
    watching = watch_fault(None, PLACE, seed, 30)
    assert not watching.verdicts()
    assert code(watching) is ExitCode.OK


def test_idle_fleet_is_unknown_and_not_fine():
    watching = under(lambda *_: None, is_idle=True)
    (only,) = watching.verdicts()
    assert word(only) == "unknown"
    assert "no node had traffic" in only.text
    assert code(watching) is ExitCode.UNKNOWN


def test_of_two_rails_neither_is_accused_alone():
    shape = FleetShape(4, gpus=2, rails=2, per_leaf=4)
    (only,) = watch_fault(FAULTS["slow rail"], (1, 1), 0, 12, shape).verdicts()
    assert "of two rails, nothing tells which is at fault" in only.text


def under(fault, seconds=12, **more) -> Watching:
    return Watching(MadeUpWatch(site_nodes(SHAPE), 0, [fault], **more), seconds)


@pytest.mark.parametrize("many", [8, 4])
def test_rail_that_is_slow_on_most_nodes_is_the_fleet_s(many):
    def slow(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        for row in rows[:many]:
            row[2].load *= 0.5

    assert not under(slow).verdicts()  # what slows it may only show later
    (only,) = under(slow, 24).verdicts()
    assert (word(only), only.rail, len(only.nodes)) == ("imbalance", 2, many)


@pytest.mark.parametrize(("name", "value", "says"), cases(__file__, "bursts_may_be"))
def test_what_bursts_of_others_may_be_needs_twice_as_long(name, value, says):
    change = partial(alone(**{name: lambda *_: value}), PLACE)
    assert not under(change).verdicts()
    (only,) = under(change, 15).verdicts()
    assert word(only) == "congestion"
    assert says in only.text


def test_pauses_without_a_mark_in_the_fabric_ask_for_ecn():
    def paused(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        for row in rows:
            for rail in row:
                rail.marked = 0.0
            row[4].paused = 0.3

    (only,) = under(paused).verdicts()
    assert word(only) == "victim"
    assert "No port marked a packet: check that ECN is on" in only.text


def test_packets_of_one_sender_accuse_no_end():
    def lost(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        rows[1][4].counts["lost"] = 100

    (only,) = under(lost).verdicts()
    assert word(only) == "loss"
    assert "at an end of these paths or in a switch, which counters do not tell" in only.text


def test_what_a_congested_receiver_loses_its_senders_are_not_accused_of():
    def full(watch: MadeUpWatch, rows: Fleet, second: int) -> None:
        FAULTS["incast"].make(PLACE)(watch, rows, second)
        for number in range(3):
            rows[number][PLACE[1]].counts["lost"] = 1000 * (number + 1)

    watching = under(full)
    kinds = {word(each): each for each in watching.verdicts()}
    assert set(kinds) == {"congestion", "loss"}
    assert kinds["congestion"].nodes == ("gpu006",)
    assert "congested or paused at gpu006, and drops there" in kinds["loss"].text


def test_tcp_beside_rdma_is_no_wrong_priority():
    def both(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        for rail in rows[0]:
            rail.counts["other_priority"] = 10**10

    assert not under(both).verdicts()


def test_rail_that_counts_no_cnps_is_not_called_a_victim():
    def paused(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        rows[0][1].paused = 0.5

    verdicts = under(paused, left_out=frozenset({"hw.rp_cnp_handled"})).verdicts()
    assert {word(each) for each in verdicts} == {"unknown"}


def test_many_verdicts_of_one_kind_are_few_lines():
    def broken(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        for row in rows:
            for rail in row[:4]:
                rail.bit_errors = 1e-9

    watching = under(broken)
    verdicts = watching.verdicts()
    assert len(verdicts) == 32
    lines = [line.text for line in WatchResult(watching.fleet(), verdicts).lines()]
    assert len(lines) == 8 + 1 + 1
    assert "symbol errors: 24 more, in results.json" in lines[8]


ROCE_SHAPE = FleetShape(2, gpus=2, rails=2, per_leaf=2)
NEAR, BAD, RAIL = "gpu001", "gpu002", 1
PACKETS = 150  # a second of an emulated node
HEALTHY = {(NEAR, RAIL): load(PACKETS), (BAD, RAIL): load(PACKETS)}


@pytest.fixture(params=(20, 600), ids=lambda seconds: f"after {seconds} s")
def watch(request):
    """Provide a watch that has seen both nodes under load, without a verdict."""
    made = SoftRoceWatch(site_nodes(ROCE_SHAPE))
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


@pytest.mark.parametrize(
    ("wrong_s", "right_s", "named"), [(9, 100, [("priority", (BAD,), RAIL)]), (1, 20, [])]
)
def test_priority_that_was_wrong_for_a_while_is_named_at_the_end(watch, wrong_s, right_s, named):
    watch.pass_seconds(wrong_s, bad(load(PACKETS, priority=0)))
    watch.pass_seconds(right_s, HEALTHY)
    assert proven(watch) == named


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
    node = site_nodes(ROCE_SHAPE)[0]
    keys = [(rail, name) for rail in (0, 1) for name in NAMES if name != left_out]
    assert any(each.startswith("RDMA by priority") for each in missing_counters(node, keys))
