"""The stand-in for an mlx5 NIC's DCB part and counters behaves like the real one.

All of it on rail 1, with factory registers before each test.
"""

import json
import shlex

import pytest
from tests.lab.rail import REPROBE, ROCE_TOS, entries, word_after
from tests.tables import cases

pytestmark = pytest.mark.lab

SHARED = True

FACTORY_MAP = [dscp >> 3 for dscp in range(64)]

# Run on the peer: NETDEV KIND COUNT.
SEND_MAC_CONTROL = cases(__file__, "send_mac_control")


def test_ets_initially_vendor_with_first_two_classes_exchanged(rail):
    (ets,) = rail.dcb("ets")
    assert ets["tc_tsa"] == ["vendor"] * 8
    assert ets["prio_tc"] == [1, 0, 2, 3, 4, 5, 6, 7]


def test_ets_weights_are_kept_next_to_zero_weights(rail):
    (ets,) = rail.dcb(
        "ets", after="dcb ets set dev $D tc-tsa all:ets tc-bw all:0 0:60 3:40 prio-tc all:0 3:3"
    )
    assert ets["tc_bw"] == [60, 0, 0, 40, 0, 0, 0, 0]
    assert ets["prio_tc"] == [0, 0, 0, 3, 0, 0, 0, 0]


def test_trust_pcp_lists_no_dscp_entry(rail):
    (app,) = rail.dcb("app")
    trust, *numbers = rail.run("cat $S/trust $S/dscp2prio").split()
    assert (app, trust) == ({}, "pcp")
    assert [int(each) for each in numbers] == FACTORY_MAP


def test_trust_dscp_after_the_first_entry_which_alone_is_listed(rail):
    (app,) = rail.dcb("app", after="dcb app add dev $D dscp-prio 26:5")
    assert entries(app) == [[26, 5]]
    assert rail.run("cat $S/trust").strip() == "dscp"


def test_dscp_entry_replaces_the_one_of_the_same_dscp(rail):
    add = "dcb app add dev $D dscp-prio 26:"
    (app,) = rail.dcb("app", after=f"{add}3; {add}5")
    assert entries(app) == [[26, 5]]


def test_dscp_entry_removed_leaves_priority_0(rail):
    script = "dcb app add dev $D dscp-prio 26:3 48:6; dcb app del dev $D dscp-prio 26:3"
    trust, *numbers = rail.run(f"{script}; cat $S/trust $S/dscp2prio").split()
    assert trust == "dscp"
    assert [int(each) for each in numbers] == [*FACTORY_MAP[:26], 0, *FACTORY_MAP[27:]]


def test_trust_pcp_after_the_last_entry_is_removed(rail):
    script = "dcb app add dev $D dscp-prio 26:3 48:6; dcb app flush dev $D"
    trust, *numbers = rail.run(f"{script}; cat $S/trust $S/dscp2prio").split()
    assert trust == "pcp"
    assert (numbers[26], numbers[48], numbers[27]) == ("0", "0", "3")


@pytest.mark.parametrize(("command", "message"), cases(__file__, "app_entry_refused"))
def test_app_entry_refused(rail, command, message):
    done = rail.call(f"dcb app add dev $D dscp-prio 26:3; {command}")
    assert done.returncode != 0
    assert message in done.stderr


def test_pfc_switches_global_pause_off(rail):
    before = rail.run("ethtool -a $D")
    after = rail.run("dcb pfc set dev $D prio-pfc 3:on; ethtool -a $D")
    assert (word_after("RX:", before), word_after("TX:", before)) == ("on", "on")
    assert (word_after("RX:", after), word_after("TX:", after)) == ("off", "off")


def test_global_pause_leaves_pfc_alone(rail):
    (pfc,) = rail.dcb("pfc", after="dcb pfc set dev $D prio-pfc 3:on; ethtool -A $D rx on tx on")
    assert [bool(on) for on in pfc["prio_pfc"]] == [prio == 3 for prio in range(8)]


def test_pause_autonegotiation_is_refused(rail):
    assert rail.call("ethtool -A $D autoneg on").returncode != 0


def test_pfc_delay_is_the_cable_length(rail):
    (pfc,) = rail.dcb("pfc", after="dcb pfc set dev $D delay 20")
    assert pfc["delay"] == 20
    assert rail.run("cat $S/cable_len").strip() == "20"


def test_pfc_priority_moves_to_the_second_buffer(rail):
    (buffer,) = rail.dcb("buffer", after="dcb pfc set dev $D prio-pfc 3:on")
    assert buffer["prio_buffer"] == [0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "layout",
    ["buffer-size 0:200000 1:200000", "buffer-size 0:100000 1:1000"],
    ids=["beyond_the_total", "too_small_for_lossless"],
)
def test_buffer_layout_is_not_taken(rail, layout):
    script = f"dcb pfc set dev $D prio-pfc 3:on; dcb buffer set dev $D {layout}"
    (buffer,) = rail.dcb("buffer", after=script)
    assert buffer["buffer_size"][:2] == [130944, 130944]


def test_buffer_layout_of_the_host_stays_when_pfc_changes(rail):
    script = "dcb buffer set dev $D buffer-size 0:60000 1:60000 2:60000 prio-buffer all:0 3:2"
    (buffer,) = rail.dcb("buffer", after=f"{script}; dcb pfc set dev $D prio-pfc 3:on")
    assert buffer["prio_buffer"] == [0, 0, 0, 2, 0, 0, 0, 0]


def test_dcbx_in_firmware_mode_is_not_the_hosts(rail):
    (host,) = rail.dcb("dcbx")
    (firmware,) = rail.dcb("dcbx", after="echo 1 > $S/firmware_dcbx")
    (taken_back,) = rail.dcb("dcbx", after="dcb dcbx set dev $D host ieee cee")
    assert [bool(each.get("host")) for each in (host, firmware, taken_back)] == [True, False, True]


def test_dcbx_without_the_host_is_refused(rail):
    assert rail.call("dcb dcbx set dev $D cee").returncode != 0


# Counters


@pytest.mark.parametrize(("trust", "prio"), [("dscp", 3), ("pcp", 0)])
def test_frames_are_counted_by_the_trusted_field(rail, peer, trust, prio):
    before = rail.counters("dcb app add dev $D dscp-prio 26:3" if trust == "dscp" else "true")
    after = rail.counters(f"ping -6 -q -c 10 -i 0.2 -s 1000 -Q {ROCE_TOS} {peer.address}")
    for direction in ("rx", "tx"):
        name = f"{direction}_prio{prio}"
        frames = after[f"{name}_packets"] - before[f"{name}_packets"]
        grown = after[f"{name}_bytes"] - before[f"{name}_bytes"]
        assert 10 <= frames <= 20  # and the network's own, on priority 0
        assert grown >= frames * 60 + 10 * (1000 + 62 - 60)
    assert after["tx_packets_phy"] - before["tx_packets_phy"] >= 10


def test_frames_with_a_vlan_tag_are_counted_by_its_priority(rail):
    vlan = (
        "ip link add link $D name standin5 type vlan id 5 egress-qos-map 0:4\n"
        "ip link set standin5 up; sleep 3; ip link del standin5"
    )
    before = rail.counters()
    after = rail.counters(vlan)  # duplicate address detection and the like are traffic enough
    assert after["tx_prio4_packets"] > before["tx_prio4_packets"]


def test_pause_counters_follow_pfc_and_global_pause(rail):
    factory = rail.counters()
    pfc = rail.counters("dcb pfc set dev $D prio-pfc 3:on")
    assert ("rx_global_pause" in factory, "rx_prio3_pause" in factory) == (True, False)
    assert ("rx_global_pause" in pfc, "rx_prio3_pause" in pfc) == (False, True)
    assert "rx_prio4_pause" not in pfc


def test_overflow_drops_frames_without_pfc(rail, peer):
    rail.run("dcb app add dev $D dscp-prio 26:3; echo 3 2 > $S/rx_overflow")
    done = rail.call(f"ping -6 -q -c 10 -i 0.2 -W 1 -Q {ROCE_TOS} {peer.address}")
    counters = rail.counters("echo off > $S/rx_overflow")
    assert " 5 received" in done.stdout
    assert counters["rx_prio3_discards"] == counters["rx_discards_phy"] == 5


def test_overflow_asks_for_a_pause_with_pfc(rail, peer):
    rail.run("dcb app add dev $D dscp-prio 26:3; dcb pfc set dev $D prio-pfc 3:on; sleep 0.5")
    once = f"ping -6 -q -c 1 -W 1 {peer.address}"
    rail.run(f"for i in $(seq 10); do {once} && break; sleep 0.5; done")  # the link trains again
    rail.run("echo 3 2 > $S/rx_overflow")
    done = rail.call(f"ping -6 -q -c 10 -i 0.2 -W 1 -Q {ROCE_TOS} {peer.address}")
    counters = rail.counters("echo off > $S/rx_overflow")
    assert " 10 received" in done.stdout
    assert (counters["rx_prio3_discards"], counters["tx_prio3_pause"]) == (0, 5)


@pytest.mark.parametrize("order", ["8 1", "3 0", "3", "3 4 5", "on"])
def test_overflow_order_is_refused(rail, order):
    assert rail.call(f"echo {order} > $S/rx_overflow").returncode != 0
    assert rail.run("cat $S/rx_overflow").strip() == "off"


@pytest.mark.parametrize(
    ("frame", "setting", "counter"), cases(__file__, "mac_control_frames_are_counted")
)
def test_mac_control_frames_are_counted(rail, peer, frame, setting, counter):
    before = rail.counters(setting)
    peer.run(f"python3 -c {shlex.quote(SEND_MAC_CONTROL)} $D {frame} 7")
    assert rail.counters("sleep 0.5")[counter] - before[counter] == 7


def test_pfc_frames_are_the_indications_of_dcb(rail, peer):
    rail.run("dcb pfc set dev $D prio-pfc 3:on")
    peer.run(f"python3 -c {shlex.quote(SEND_MAC_CONTROL)} $D pfc 7")
    shown = json.loads(rail.run("sleep 0.5; dcb -s -j pfc show dev $D"))
    assert shown["indications"] == [0, 0, 0, 7, 0, 0, 0, 0]


# Lifetimes


def test_registers_survive_a_driver_reprobe_and_ets_does_not(rail):
    rail.run(
        "dcb app add dev $D dscp-prio 26:5; dcb pfc set dev $D prio-pfc 3:on\n"
        "dcb ets set dev $D tc-tsa all:strict tc-bw all:0 prio-tc all:2"
    )
    app, pfc, ets = rail.dcb("app", "pfc", "ets", after=REPROBE)
    assert entries(app) == [[dscp, 5 if dscp == 26 else dscp >> 3] for dscp in range(64)]
    assert [bool(on) for on in pfc["prio_pfc"]] == [prio == 3 for prio in range(8)]
    assert (ets["tc_tsa"][0], ets["prio_tc"][:3]) == ("vendor", [1, 0, 2])


def test_factory_registers_after_a_power_cycle(rail):
    rail.run("dcb app add dev $D dscp-prio 26:5; dcb pfc set dev $D prio-pfc 3:on")
    rail.power_cycle()
    app, pfc = rail.dcb("app", "pfc")
    assert (app, any(pfc["prio_pfc"])) == ({}, False)


def test_detached_netdev_has_no_dcb(rail):
    done = rail.call("echo $D > $R/detach; dcb pfc show dev $D; r=$?; echo $D > $R/attach; exit $r")
    assert done.returncode != 0
    assert "Operation not supported" in done.stderr


def test_attach_is_idempotent(rail):
    assert rail.netdev in rail.run("echo $D > $R/attach; cat $R/attach").split()
