"""What a watch makes of counters that go around, are set back, vanish, and of nodes that do."""

import json

import pytest
from tests.madeup.shape import FleetShape
from tests.madeup.site import site_nodes
from tests.madeup.watched import NAMES, Fleet, MadeUpWatch
from tests.madeup.watching import Watching
from tests.tables import cases

from rdmaprov.boundary import OddAnswer
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.watch.answers import parse_names, parse_steps
from rdmaprov.watch.rail import Column, RailAccount, RailRow, RailState
from rdmaprov.watch.verdict import line, word

SHAPE = FleetShape(2, gpus=4, rails=4, per_leaf=2)
DISCARDS = (1, NAMES["discards"])


@pytest.fixture
def watching():
    return Watching(MadeUpWatch(site_nodes(SHAPE)), 8)


@pytest.fixture
def account(watching):
    return watching.accounts["gpu001"]


def unknown(watching: Watching) -> list[str]:
    found = watching.verdicts()
    assert {word(each) for each in found} <= {"unknown"}
    return [line(each) for each in found]


def test_counter_that_goes_around_is_counted_on(watching, account):
    level = watching.watch.levels[0][1]
    level["discards"] = (1 << 32) - 5
    watching.pass_seconds(1)
    before = account.totals[DISCARDS]
    level["discards"] = 7
    watching.pass_seconds(1)
    assert account.totals[DISCARDS] - before == 12
    assert account.resets == []


@pytest.mark.parametrize(("parts", "lasts"), cases(__file__, "spells"))
def test_state_that_stays_or_returns_often_is_no_burst(parts, lasts):
    rail = RailAccount()
    for second in "".join(part * times for part, times in parts):
        rail.add(RailRow([10**9, 10**9, 10**5 * (second == "x"), *[0] * 8]))
    assert rail.lasts(RailState.CONGESTED) is lasts


def test_counter_that_is_set_back_is_told_and_counts_nothing(watching, account):
    watching.watch.levels[0][1]["sent"] = 3
    before = account.rails[1].sums[Column.RECEIVED]
    watching.pass_seconds(3)
    assert account.rails[1].sums[Column.RECEIVED] > before
    (text,) = unknown(watching)
    assert text.startswith("gpu001: unknown: ")
    assert "counters of rail 1 were set back 1 times (first seen at 9.0 s)" in text


def test_node_that_boots_anew_is_told(watching, account):
    watching.watch.boots[0] = "ffff"
    watching.watch.levels[0] = [dict.fromkeys(NAMES, 0) for _ in range(4)]
    watching.open(0)
    watching.pass_seconds(3)
    assert account.resets == []
    (text,) = unknown(watching)
    assert "rebooted during the watch (seen at 8.0 s)" in text


def test_gap_without_a_reboot_loses_no_count(watching, account):
    watching.watch.silent.add(0)
    account.lost = NodeUnreachable("gpu001: the connection ended", "Look.")
    (text,) = unknown(watching)
    assert "gpu001: unreachable: no answer since" in text
    before = account.totals[DISCARDS]
    sent = account.rails[1].sums[Column.SENT]
    watching.watch.levels[0][1]["discards"] += 4
    watching.pass_seconds(4)
    watching.watch.silent.clear()
    watching.open(0)
    watching.pass_seconds(1)
    assert account.totals[DISCARDS] - before == 4
    assert account.rails[1].sums[Column.SENT] - sent > 4 * 20e9
    assert account.gaps == [(8.0, 12.0)]
    assert account.lost is None


def test_node_that_never_answers_is_unknown():
    made = Watching(MadeUpWatch(site_nodes(SHAPE)))
    made.accounts["gpu002"].answers = 0
    made.accounts["gpu002"].lost = NodeUnreachable(
        "gpu002: ssh rejects the user", "Try: ssh gpu002"
    )
    made.watch.silent.add(1)
    made.pass_seconds(6)
    assert unknown(made) == ["gpu002: unreachable: ssh rejects the user. Try: ssh gpu002"]


@pytest.mark.parametrize(
    ("left_out", "says"), cases(__file__, "missing_counters_are_unknown_for_all_nodes_at_once")
)
def test_missing_counters_are_unknown_for_all_nodes_at_once(left_out, says):
    made = Watching(MadeUpWatch(site_nodes(SHAPE), left_out=frozenset(left_out)), 6)
    assert f"2 nodes (gpu[001-002]): unknown: {says}" in unknown(made)[0]


def test_counter_that_stands_at_its_largest_value_is_unknown():
    watch = MadeUpWatch(site_nodes(SHAPE))
    watch.levels[0][2]["link_downed"] = 0xFF
    made = Watching(watch, 6)
    (text,) = unknown(made)
    assert "port.link_downed of rail 2 is at its maximum" in text


def test_infiniband_needs_no_counters_of_pauses():
    shape = FleetShape(2, gpus=4, rails=4, per_leaf=2, kind="infiniband")
    left_out = frozenset(name for name in NAMES.values() if "pause" in name or "np_" in name)
    made = Watching(MadeUpWatch(site_nodes(shape), left_out=left_out), 6)
    assert unknown(made) == []


def test_clock_that_stands_still_is_odd(account):
    steps = parse_steps('{"us":1,"cpu_us":1,"at":[],"by":[],"gone":[]}', 4)
    with pytest.raises(OddAnswer, match="its clock does not move"):
        account.add(steps, 9.0)


def test_rate_that_no_port_has_is_odd(watching):
    def lie(_watch: MadeUpWatch, rows: Fleet, _second: int) -> None:
        rows[0][0].load = 1e6

    watching.watch.faults = [lie]
    with pytest.raises(OddAnswer, match="more bytes than any port"):
        watching.pass_seconds(1)


NAMED = cases(__file__, "named")
STEPS = {"us": 5, "cpu_us": 5, "at": [0], "by": [-3], "gone": [1]}


def test_answers_of_the_right_shape_are_taken():
    assert parse_names(json.dumps(NAMED), 1).keys == ((0, "down"), (0, "counters.x"))
    assert parse_steps(json.dumps(STEPS), 2).by == [-3]
    planes = [{"rdma": "mlx5_0", "netdev": "", "unfit": "12 ports"}]
    assert parse_names(json.dumps({**NAMED, "rails": planes}), 1).unfit == {0: "12 ports"}


@pytest.mark.parametrize(
    ("parse", "said"),
    [
        *((parse_names, {**NAMED, **odd}) for odd in cases(__file__, "odd_names_are_refused")),
        *((parse_steps, {**STEPS, **odd}) for odd in cases(__file__, "odd_steps_are_refused")),
        *((parse_steps, text) for text in ("", "[]", "{", "null", "[" * 100_000, " " * (1 << 20))),
    ],
)
def test_odd_names_and_steps_and_what_is_no_answer_are_refused(parse, said):
    with pytest.raises(OddAnswer):
        parse(said if isinstance(said, str) else json.dumps(said), 1 + (parse is parse_steps))
