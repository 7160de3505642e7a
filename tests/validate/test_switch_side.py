"""What is known of the switch's side without lldpd, and why something is not verified."""

from dataclasses import replace

import pytest
from tests.validate.healthy import QUERY, RAILS
from tests.validate.switches import announced

CABLE = "test_cabling.py::test_rail_is_on_its_switch_port"
PFC = "test_switch_qos.py::test_switch_has_pfc_on_lossless_priority"
# Chassis, port swp1, time to live, the name leaf-r0; PFC for priority 3; the end.
FRAME = "0180c200000e02000000000188cc0207048a786e77a8040405057377703106020078"
FRAME += "0a076c6561662d7230fe060080c20b08080000"


@pytest.fixture
def said(judged):
    """Return how a check of rail 0 ended, with its message."""

    def end(name, node=None):
        return next((o.state, o.said) for o in judged(name, node=node) if o.target == "gpu1-rail0")

    return end


def without_daemon(node, printed):
    """Have no LLDP daemon, and Python print this of the frames on the wire."""
    node.remove("/.bin/lldpctl")
    node.put("/.bin/python3", f"#!/bin/sh\nprintf '{printed}'\n")
    node.executable("/.bin/python3")


def test_frames_of_the_wire_tell_without_a_daemon(said, changed):
    without_daemon(changed, rf"port ens1\nport ens2\nframe ens1 {FRAME}\n")
    assert said(CABLE) == ("passed", "")
    assert said(PFC) == ("passed", "")


def test_silent_wire_is_not_verified(said, changed):
    without_daemon(changed, r"port ens1\nport ens2\n")
    why = "ens1: no neighbour announced itself in 31 s: is LLDP on at the switch's port?"
    assert said(CABLE) == ("skipped", why)


def test_wire_is_not_listened_to_without_a_plan(said, fleet, changed):
    without_daemon(changed, r"it listened\n")
    node = fleet.nodes[0]
    bare = tuple(replace(rail, leaf="", switch_port="") for rail in node.rails)
    why = "no LLDP daemon runs, and without a plan (fabric_rails, leaf) nothing listens on the wire"
    assert said(PFC, replace(node, rails=bare)) == ("skipped", why)


def test_neighbour_that_lldpd_does_not_know_is_not_verified(said, changed):
    changed.answer("lldpctl -f json0", announced({"ens2": ("leaf-r1", "swp1")}))
    why = "ens1: lldpd knows no neighbour: is LLDP on at the switch's port?"
    assert said(PFC) == ("skipped", why)
    changed.put("/sys/class/net/ens1/carrier", "0\n")
    assert said(PFC) == ("skipped", "ens1 has no carrier, so no neighbour")


def test_firmware_that_keeps_lldp_is_the_reason(said, changed):
    changed.answer("lldpctl -f json0", announced({"ens2": ("leaf-r1", "swp1")}))
    off = "LLDP_NB_RX_MODE_P1                          OFF(0)              OFF(0)"
    query = QUERY.replace(off, off[: -len("OFF(0)")] + "ALL(2)")
    assert query != QUERY
    changed.answer(f"mstconfig -d {RAILS['ens1'][1][-1]} -e query", query)
    why = "ens1: the NIC's firmware keeps LLDP to itself (LLDP_NB_RX_MODE)"
    assert said(PFC) == ("skipped", why)


def test_switch_that_announces_cables_alone_is_not_verified(said, changed):
    text = announced({"ens1": ("leaf-r0", "swp1")})
    changed.answer("lldpctl -f json0", text.replace("00,80,C2", "00,26,E1"))
    assert said(CABLE) == ("passed", "")
    assert said(PFC) == ("skipped", "ens1: leaf-r0 swp1 announces no PFC")
    changed.answer("lldpctl -f json0", text.replace("00,80,C2", "00,1B,21"))
    older = "ens1: leaf-r0 swp1 announces no PFC, and speaks DCBX of before IEEE 802.1Qaz"
    assert said(PFC) == ("skipped", older)


def test_share_is_compared_where_the_site_writes_shares(said, fleet, changed):
    text = announced({"ens1": ("leaf-r0", "swp1")})
    changed.answer("lldpctl -f json0", text.replace("60,32,00,00,32", "60,1e,00,00,46"))
    name = "test_switch_qos.py::test_switch_has_bandwidth_for_lossless_priority"
    assert said(name) == ("passed", "")
    node = fleet.nodes[0]
    state, text = said(name, replace(node, written=node.written | {"roce_qos_tc_percent"}))
    assert state == "failed"
    assert "bandwidth of priority 3 on leaf-r0 swp1 is 70 %, expected 50 % (roce_qos_tc" in text
