"""The stand-ins for the vendor's driver and for nvidia_peermem behave like the real ones."""

import shlex

import pytest
from tests.lab.rail import ROCE_TOS, SEND_UDP
from tests.tables import cases

pytestmark = pytest.mark.lab

SHARED = True


def test_vendor_interfaces_only_while_the_vendor_driver_runs(rail):
    listing = f"ls -d /sys/class/net/$D/ecn /sys/class/infiniband/{rail.rdma}/tc | wc -l"
    script = f"{listing}; modprobe standin_ofed; {listing}; modprobe -r standin_ofed; {listing}"
    assert rail.call(script).stdout.split() == ["0", "2", "0"]


def test_ecn_initial_values(ofed):
    files = "roce_np/cnp_dscp roce_np/cnp_802p_prio */enable/*"
    assert ofed.run(f"cd /sys/class/net/$D/ecn; cat {files}").split() == ["48", "6", *["1"] * 16]


@pytest.mark.parametrize(("name", "value"), cases(__file__, "ecn_value_is_refused"))
def test_ecn_value_is_refused(ofed, name, value):
    assert ofed.call(f"echo {value} > /sys/class/net/$D/ecn/{name}").returncode != 0


def test_ecn_values_survive_a_driver_reload(ofed):
    name = "/sys/class/net/$D/ecn/roce_np/cnp_dscp"
    script = f"echo 26 > {name}; modprobe -r standin_ofed; modprobe standin_ofed; cat {name}"
    assert ofed.run(script).strip() == "26"


def test_traffic_class_reads_as_the_vendors(ofed):
    assert ofed.run("cat $T") == ""
    assert ofed.run("echo 106 > $T; cat $T") == "Global tclass=106\n"
    assert ofed.run("echo -1 > $T; cat $T") == ""


@pytest.mark.parametrize("value", ["256", "tclass"])
def test_traffic_class_is_refused(ofed, value):
    assert ofed.call(f"echo {value} > $T").returncode != 0


@pytest.mark.parametrize(("port", "marked"), [(4791, 10), (4792, 0)], ids=["roce", "other"])
def test_traffic_class_marks_roce_packets_only(ofed, peer, port, marked):
    ofed.run(f"dcb app add dev $D dscp-prio 26:3; echo {ROCE_TOS} > $T")
    counters = ofed.counters(f"python3 -c {shlex.quote(SEND_UDP)} {peer.address} {port}")
    assert counters["tx_prio3_packets"] == marked


def test_traffic_class_marks_rdma_and_rdma_still_works(ofed, peer):
    # The server listens on IPv4 only; the packets themselves go by the link-local GID 0.
    pingpong = f"timeout 60 ibv_rc_pingpong -d {ofed.rdma} -g 0 -n 20"
    server, client = "192.0.2.1/30", "192.0.2.2/30"
    peer.run(f"ip addr add {server} dev $D; nohup {pingpong} > /dev/null 2>&1 & sleep 3")
    ofed.run(f"dcb app add dev $D dscp-prio 26:3; echo {ROCE_TOS} > $T")
    done = ofed.call(f"ip addr add {client} dev $D; {pingpong} 192.0.2.1")
    peer.run(f"ip addr del {server} dev $D")
    assert done.returncode == 0, done.stderr
    assert ofed.counters(f"ip addr del {client} dev $D")["tx_prio3_packets"] >= 20


# Peer memory


def test_peermem_without_the_vendor_driver_is_an_invalid_argument(rail):
    done = rail.call("dmesg -C; modprobe nvidia_peermem; r=$?; dmesg | grep -i peermem; exit $r")
    assert done.returncode != 0
    assert "could not insert 'nvidia_peermem': Invalid argument" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("parameter", ["peerdirect_support=2", "persistent_api_support=-1"])
def test_peermem_parameter_is_refused(ofed, parameter):
    assert "Invalid argument" in ofed.call(f"modprobe nvidia_peermem {parameter}").stderr


def test_peermem_registers_its_client(ofed):
    registry = "/sys/kernel/mm/memory_peers"
    script = f"modprobe nvidia_peermem; ls {registry}; cat {registry}/nv_mem/version"
    name, version = ofed.run(script).split()
    assert name == "nv_mem"
    assert ofed.run("cat /sys/module/nvidia_peermem/version").strip() == version
    ofed.run(f"modprobe -r nvidia_peermem; [ ! -e {registry} ]")


def test_vendor_driver_stays_while_a_peer_is_registered(ofed):
    done = ofed.call("modprobe nvidia_peermem; rmmod standin_ofed")
    assert done.returncode != 0
    assert "in use" in done.stderr
