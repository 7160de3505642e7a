"""Error counters are judged by how they rise, not by all that they have counted."""

import pytest
from tests.validate.runner import ends

from rdmaprov.facts import CouldNotTell, counters
from rdmaprov.facts.text import END

TEST = "test_links.py::test_counters_are_those_of_a_good_link"


def test_cable_that_was_replaced_is_good(judged, changed):
    changed.replace("/.answers/ethtool/-S_ens1", "rx_crc_errors_phy: 0", "rx_crc_errors_phy: 4711")
    changed.put("/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "90000\n")
    assert ends(judged(TEST)) == [("passed", "")] * 2


@pytest.mark.parametrize(("rise", "state"), [(3, "passed"), (4, "failed")])
def test_few_errors_are_those_of_a_good_link(judged, changed, rise, state):
    """At 400 Gb/s, a bit error ratio of 1e-12 is two errors in 5 s; one more may be by chance."""
    changed.put("/.answers/sleep", f"ens1 rx_symbol_err_phy {rise}\n")
    assert [each.state for each in judged(TEST)] == [state, "passed"]


def test_node_waits_once_for_all_of_its_rails(judged, changed):
    changed.put("/.bin/sleep", f"#!/bin/sh\necho waited >> {changed.root}/waited\n")
    changed.executable("/.bin/sleep")
    hosts = judged.hosts()
    assert len(judged(TEST, hosts=hosts)) == 2
    assert hosts["gpu1"].backend.ran.count(counters.GROWTH) == 1
    assert (changed.root / "waited").read_text() == "waited\n"


def test_node_without_any_error_does_not_wait(judged, changed):
    changed.put("/.bin/sleep", f"#!/bin/sh\necho waited >> {changed.root}/waited\n")
    changed.executable("/.bin/sleep")
    for netdev in ("ens1", "ens2"):
        path = f"/.answers/ethtool/-S_{netdev}"
        changed.replace(path, "rx_symbol_err_phy: 2", "rx_symbol_err_phy: 0")
    assert ends(judged(TEST)) == [("passed", "")] * 2
    assert not (changed.root / "waited").exists()


def test_port_whose_counters_cannot_be_read_is_unknown(judged, changed):
    changed.put("/.answers/ethtool/-S_ens1", "Cannot get stats information: Input/output error\n")
    assert ends(judged(TEST)) == [
        ("error", "unknown: ethtool -S ens1: Cannot get stats information: Input/output error"),
        ("passed", ""),
    ]


def test_firmware_that_starts_meanwhile_counts_from_zero():
    sample = "@ ens1\n     rx_crc_errors_phy: {}\n"
    said = f"{sample.format(9)}==\n{sample.format(1)}{END}\n"
    assert counters.parse_growth(said).of("ens1") == {"rx_crc_errors_phy": -8}


@pytest.mark.parametrize("text", ["", "@ ens1\n", f"no ethtool\n{END}\n", f"x\n{END}\n"])
def test_answer_that_is_no_sample_is_unknown(text):
    with pytest.raises(CouldNotTell):
        counters.parse_growth(text)
