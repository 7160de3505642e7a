"""Lossless RoCE on a real node: faults repaired, and all there again after reloads.

That a factory node becomes so, and is so after a boot, is in test_pass.
"""

import time
from contextlib import suppress

import pytest
from tests.lab.rail import RAIL, Rail, entries
from tests.tables import cases

pytestmark = pytest.mark.lab

NODE = "node1"
# The last one leaves nothing of what another one breaks.
FAULTS = (
    *("pfc-wrong-priority", "pfc-two-priorities", "dscp-entry-lost", "ets-changed", "tos-lost"),
    "trust-pcp",
)
MAP = [[dscp, dscp >> 3] for dscp in range(64)]
TOS = """
cm=/sys/kernel/config/rdma_cm/mlx5_1; mkdir $cm 2> /dev/null && made=1
cat $cm/ports/1/default_roce_tos; [ -z "$made" ] || rmdir $cm
"""
LINK = "rdma link del mlx5_1; rdma link add mlx5_1 type rxe netdev $D"
# The card loses its power, and its driver is loaded anew: the netdev goes and comes.
RELOAD = cases(__file__, "reload")
WAIT_S = 60


def settings(lab):
    rail = Rail(lab, NODE)
    app, pfc, ets = rail.dcb("app", "pfc", "ets")
    pause, tos = rail.run(f"ethtool -a $D | grep -c ':.*on$' || true; {TOS}").split()
    return {
        "map": entries(app),
        "pfc": [priority for priority, on in enumerate(pfc["prio_pfc"]) if on in (True, "on")],
        "tsa": ets["tc_tsa"],
        "classes": ets["prio_tc"],
        "pause": pause,
        "tos": tos,
    }


RIGHT = {
    "map": MAP,
    "pfc": [3],
    "tsa": ["ets"] * 6 + ["strict", "ets"],
    "classes": [0, 0, 0, 3, 0, 0, 6, 0],
    "pause": "0",
    "tos": "106",
}


def is_right_again(lab):
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        with suppress(AssertionError):  # a rail that is coming back has no DCB yet
            if settings(lab) == RIGHT:
                return True
        time.sleep(2)
    return settings(lab) == RIGHT


@pytest.fixture
def lossless(lab, play):
    def make():
        assert play.run({}).returncode == 0, play.said

    lab.begin_from("lossless", make)
    return play


def test_faults_are_repaired_together(lab, lossless):
    for fault in FAULTS:
        lab.must("fault", NODE, fault, "--rail", str(RAIL))
    broken = settings(lab)
    assert [
        name for name, value in RIGHT.items() if name != "pause" and broken[name] == value
    ] == []
    assert lossless.changes({})
    assert settings(lab) == RIGHT
    lab.must("heal", NODE)


@pytest.mark.usefixtures("lossless")
@pytest.mark.parametrize("what", ["link", "driver"])
def test_all_is_right_after_what_is_loaded_anew(lab, what):
    Rail(lab, NODE).run(LINK if what == "link" else RELOAD)
    assert is_right_again(lab)


def test_vendors_driver_has_congestion_control_and_marks_again(lab, play):
    lab.run(NODE, "echo vendor > /etc/rdmaprov-lab/driver; modprobe standin_ofed")
    variables = {"roce_qos_force_traffic_class": True, "roce_qos_dcqcn": {"rp_ai_rate": 10}}
    assert play.changes(variables)
    lab.must("reboot", NODE)
    assert is_right_again(lab)
    ecn = "cd /sys/class/net/$D/ecn; cat roce_rp/enable/[0-7] roce_rp/rpg_ai_rate $T"
    assert Rail(lab, NODE).run(ecn).split() == [*"00010000", "10", "Global", "tclass=106"]


@pytest.mark.usefixtures("lossless")
def test_marked_rdma_rides_the_lossless_priority_alone(lab):
    near, far = Rail(lab, NODE), Rail(lab, "node2")
    bandwidth = f"timeout 100 ib_write_bw -F -d {near.rdma} -x 0 -n 100 -s 4096 --tclass=106"
    far.run(
        "ip link set $D up; ip addr add 192.0.2.1/30 dev $D\n"
        f"nohup {bandwidth} > /dev/null 2>&1 & sleep 4"
    )
    before = near.counters("ip link set $D up; ip addr add 192.0.2.2/30 dev $D")
    after = near.counters(f"sleep 2; {bandwidth} 192.0.2.1")
    far.run("ip addr del 192.0.2.1/30 dev $D")
    near.run("ip addr del 192.0.2.2/30 dev $D")
    sent = [after[f"tx_prio{each}_packets"] - before[f"tx_prio{each}_packets"] for each in range(8)]
    assert sent[3] >= 400  # 100 messages of 4096 bytes at an RDMA MTU of 1024
    assert sent[0] < 100  # TCP, by which the two agree, and the network's own
    assert [each for prio, each in enumerate(sent) if prio not in (0, 3)] == [0] * 6
