"""What counters over time show of rails, and that healthy rails show nothing."""

import random

import pytest
from tests.unit.helpers import made_samples

from rdmaprov.acceptance.samples.fleet import collect_samples, first_silence, samples_as_data
from rdmaprov.acceptance.stages import over_time
from rdmaprov.acceptance.stages.over_time import change_point

RAILS = 4


def steps(*parts):
    return [rate for rate, seconds in parts for _ in range(round(10 * seconds))]


def noisy(rates, seed):
    made = random.Random(seed)
    return [max(0.0, rate * made.gauss(1, 0.01)) for rate in rates]


# Messages of several sizes with the pauses that lie between them.
SWEEP = steps((0, 2), (45, 3), (0, 1), (30, 2), (0, 0.6), (12, 1), (0, 2))


def fleet(nodes=6, together=True, **changed):
    files = {}
    for number in range(nodes):
        name = f"n{number}"
        usual = made_samples.rails(*(noisy(SWEEP, 100 * number + r) for r in range(RAILS)))
        own = changed.get(name, {})
        files[name] = made_samples.pack({**usual, **own.pop("fast", {})}, **own)
    return collect_samples(files, dict.fromkeys(files, RAILS), together)


def with_rail(rail, rates):
    return {
        "fast": {
            name.replace("0/", f"{rail}/"): column
            for name, column in made_samples.rails(rates).items()
        }
    }


def without(rates, begin_s, end_s, share=0.0):
    return [
        rate * share if begin_s <= place / 10 < end_s else rate for place, rate in enumerate(rates)
    ]


def test_healthy_fleet_shows_nothing():
    found = fleet(24)
    assert over_time.findings(found) == []
    assert list(over_time.notes(found, hung=True)) == []


def test_rail_that_stops_while_its_neighbours_go_on_is_named_with_the_time():
    found = over_time.findings(fleet(n3=with_rail(2, without(SWEEP, 3, 4))))
    assert [(each.node, each.rail, each.level) for each in found] == [("n3", 2, "rail")]
    assert "3.0 s after the start, for 1.0 s" in found[0].what


def test_rail_that_is_tested_alone_or_always_carries_too_little_is_no_finding():
    assert over_time.findings(fleet(together=False, n3=with_rail(2, without(SWEEP, 3, 4)))) == []
    # It is left to the sums.
    assert over_time.findings(fleet(n1=with_rail(0, without(SWEEP, 0, 99, 0.4)))) == []


def test_rail_that_carries_too_little_for_a_while_is_named():
    found = over_time.findings(fleet(n1=with_rail(0, without(SWEEP, 2, 4.5, 0.4))))
    assert [(each.node, each.rail) for each in found] == [("n1", 0)]
    assert found[0].what.startswith("it sent 40% of what")


def test_lost_link_is_named_even_if_it_is_shorter_than_a_tick():
    downs = [0] * len(SWEEP)
    downs[31:34] = [1, 1, 1]
    changes = [0] * len(SWEEP)
    changes[50] = 2
    found = over_time.findings(
        fleet(n0={"fast": {"1/down": downs}}, n5={"fast": {"3/carrier_changes": changes}})
    )
    assert [(each.node, each.rail) for each in found] == [("n0", 1), ("n5", 3)]
    assert "3.1 s after the start, for 0.3 s" in found[0].what
    assert "1 time " in found[1].what


def test_rail_that_stops_without_a_link_is_named_once():
    own = with_rail(2, without(SWEEP, 3, 4))
    own["fast"]["2/down"] = [int(30 <= place < 38) for place in range(len(SWEEP))]
    found = fleet(n3=own)
    assert sorted(each.kind for each in found.nodes[3].events) == ["link", "stopped"]
    (one,) = over_time.findings(found)
    assert (one.node, one.rail, "its link went down" in one.what) == ("n3", 2, True)


def test_links_that_go_down_together_name_the_switch():
    downs = [0] * len(SWEEP)
    downs[31:40] = [1] * 9
    found = over_time.findings(
        fleet(
            n0={"fast": {"1/down": downs}},
            n2={"fast": {"1/down": downs}},
            n4={"fast": {"1/down": downs}},
        )
    )
    assert [(each.level, each.rail, each.nodes) for each in found] == [
        ("leaf", 1, ("n0", "n2", "n4"))
    ]


def test_nic_that_pauses_its_switch_without_a_break_is_named():
    paused = {"2/ethtool.tx_prio3_pause_duration": [0, 400_000, 990_000, 1_000_000, 980_000, 0]}
    found = over_time.findings(fleet(n2={"slow": paused}))
    assert [(each.node, each.rail) for each in found] == [("n2", 2)]
    assert "1.0 s after" not in found[0].what  # 40 % of a second is congestion
    assert "2.0 s after the start, for 3.0 s" in found[0].what


def test_rail_that_its_switch_pauses_is_noted_and_not_accused():
    found = fleet(n2={"slow": {"2/ethtool.rx_prio3_pause_duration": [0, 620_000, 0]}})
    assert over_time.findings(found) == []
    assert list(over_time.notes(found)) == [
        "paused by their switch, of the worst second: n2 rail 2 (62%)"
    ]


def test_rail_that_waits_much_longer_than_others_is_noted():
    def waits(ticks):
        columns = {f"{rail}/port.port_xmit_wait": [5000] * len(SWEEP) for rail in range(RAILS)}
        return {"fast": {**columns, "1/port.port_xmit_wait": [ticks] * len(SWEEP)}}

    usual = {f"n{number}": waits(5000) for number in (0, 1, 2, 3, 5)}
    found = fleet(**usual, n4=waits(80_000))
    assert over_time.findings(found) == []
    (note,) = over_time.notes(found)
    assert "for the same bytes: n4 rail 1. What they send to" in note
    assert list(over_time.notes(fleet(**usual, n4=waits(20_000)))) == []


def test_clock_that_is_ahead_is_seen_by_the_work_that_all_do():
    ahead = fleet(8, n6={"wall": 1_800_000_000.0 + 1.3})
    assert ahead.lags_s == {"n6": pytest.approx(1.3)}
    assert fleet(8).lags_s == {}
    # What happens there has the time that it has elsewhere.
    node = next(each for each in ahead.nodes if each.node == "n6")
    assert ahead.since_start(node, 5.0) == pytest.approx(5.0, abs=0.11)


def hang(n4_stops_s):
    rates = steps((0, 1), (45, 5), (0, 9))
    files = {
        f"n{number}": made_samples.pack(
            made_samples.rails(
                *[
                    without(rates, n4_stops_s, 99) if (number, rail) == (4, 1) else rates
                    for rail in range(RAILS)
                ]
            )
        )
        for number in range(6)
    }
    return collect_samples(files, dict.fromkeys(files, RAILS), together=False)


def test_rail_that_stopped_first_in_a_hang_is_named_only_if_times_can_tell():
    assert "n4 rail 1 stopped first, 1.0 s before the next" in first_silence(hang(5.0))
    assert "closer than 0.2 s" in first_silence(hang(5.9))


def test_run_that_ended_well_has_no_silence():
    assert first_silence(fleet()) == ""


def soak(after, seed=1):
    rates = steps((0, 3), (45, 40), (after, 40), (0, 3))
    files = {
        f"n{n}": made_samples.pack(
            made_samples.rails(*(noisy(rates, seed * n + r) for r in range(2)))
        )
        for n in range(4)
    }
    return collect_samples(files, dict.fromkeys(files, 2), together=True)


def test_soak_that_slows_down_is_found_with_the_time():
    (found,) = over_time.findings(soak(38), steady=True)
    assert found.level == "fleet"
    assert "from 43 s after the start, rails sent 38 GB/s, 45 GB/s before" in found.what
    assert over_time.findings(soak(38)) == []  # a sweep's sizes differ


@pytest.mark.parametrize("seed", range(5))
def test_soak_that_goes_on_alike_has_no_change(seed):
    assert over_time.findings(soak(45, seed), steady=True) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_no_change(seed):
    assert change_point(noisy([45.0] * 600, seed)) is None


def test_figures_of_results_have_what_a_reader_asks_for():
    counts = {"3/hw.np_cnp_sent": [5] * len(SWEEP)}
    data = samples_as_data(
        fleet(n3=with_rail(2, without(SWEEP, 3, 4)), n5={"fast": counts, "cpu_s": 1.0})
    )
    assert data is not None
    by_rail = {(each["node"], each["rail"]): each for each in data["rails"]}
    assert by_rail["n3", 2]["stopped_share"] == pytest.approx(1.0 / 11.6, rel=0.01)
    assert by_rail["n3", 2]["events"] == [
        {"kind": "stopped", "count": 1, "from_s": 3.0, "seconds": 1.0}
    ]
    assert by_rail["n5", 3]["counts"] == {"cnps_sent": 5 * len(SWEEP)}
    assert by_rail["n0", 0]["most_gb_s"] == pytest.approx(45, rel=0.05)
    assert data["cpu_share"] == pytest.approx(1.0 / 11.6, rel=0.01)
