"""The nodes of the lab are what a factory-new fleet is, with a fabric that really carries RDMA."""

import json
import time

import pytest
from tests.lab.handle import FACTORY

pytestmark = pytest.mark.lab

SHARED = True
NODES = ("node1", "node2")
MTU = 4200
ROCE_TOS = 106  # DSCP 26, ECT(0)
WRITE_BYTES = 65536
WRITES = 50
CLOCK_S = 20  # of a busy machine; a wrong rate takes 3 s of each second


def address(node, rail):
    return f"198.18.{rail}.{NODES.index(node) + 1}"


def configure(lab):
    """Give each rail its address and an MTU for RoCE, by hand, as nobody should on metal."""
    for node in NODES:
        lines = [
            f"ip link set {lab.netdev(node, rail)} mtu {MTU} up; "
            f"ip addr replace {address(node, rail)}/24 dev {lab.netdev(node, rail)}"
            for rail in (0, 1)
        ]
        lab.run(node, "set -e\n" + "\n".join(lines))


@pytest.fixture
def fabric(lab):
    configure(lab)
    return lab


def write(lab, rail, tos=None):
    # Few at a time: where many overflow a starved node's socket, Soft-RoCE takes what comes after
    # the lost packet for an invalid request. -F: the writes count, not their rate, which perftest
    # refuses to tell (exit code 1) where a starved node's clock is not steady.
    words = f"ib_write_bw -F -d mlx5_{rail} -x 1 -s {WRITE_BYTES} -n {WRITES} -m 4096 --tx-depth=4"
    words += f" -R -T {tos}" if tos is not None else ""
    lab.run("node2", f"systemd-run -q --collect --unit server timeout 60 {words}")
    once = f"timeout 60 {words} {address('node2', rail)} && exit"  # it rejects until it listens
    lab.run("node1", f"for _ in $(seq 20); do {once}; sleep 1; done; exit 1")


def test_factory_node_has_nothing_configured(lab):
    lab.begin_from(FACTORY)
    netdev = lab.netdev("node1", 0)
    seen = lab.run(
        "node1",
        f"cat /sys/class/net/{netdev}/mtu; dcb -j app show dev {netdev};"
        f"dcb -j pfc show dev {netdev}; cat /proc/sys/vm/nr_hugepages;"
        "cat /etc/modprobe.d/* /etc/security/limits.d/* 2>/dev/null | grep -c ^options;"
        "systemctl is-system-running; cat /sys/kernel/standin_mlx5e/*/trust | sort -u",
    ).splitlines()
    assert seen[0] == "1500"
    assert json.loads(seen[1]) == {}
    assert set(json.loads(seen[2])["prio_pfc"]) <= {False, "off"}
    assert seen[3:] == ["0", "0", "running", "pcp"]


def test_bytecode_of_what_is_sent_as_an_archive_is_kept(lab):
    seen = lab.run(
        "node1",
        'cd $(mktemp -d); echo "print(6 * 7)  # $PWD" > sent.py;'
        "python3 -m zipfile -c sent.zip sent.py; rm sent.py;"
        "ls /run/rdmaprov-lab/bytecode > before 2>/dev/null; PYTHONPATH=sent.zip python3 -m sent;"
        "PYTHONPATH=sent.zip python3 -c 'import sent'; ls /run/rdmaprov-lab/bytecode > after;"
        "diff before after | grep -c '^>'",
    )
    assert seen.split() == ["42", "42", "1"]


@pytest.mark.parametrize(
    ("entries", "priority"),
    [("app add dev $D dscp-prio 26:3", 3), ("app del dev $D dscp-prio 26:3", 0)],
    ids=["mapped", "not mapped"],
)
def test_marked_rdma_traffic_counts_on_the_priority_of_its_dscp(fabric, entries, priority):
    for node in NODES:
        # DSCP 46 stays in the map, so that the NIC goes on trusting DSCP.
        netdev = fabric.netdev(node, 0)
        fabric.run(node, f"D={netdev}; dcb app add dev $D dscp-prio 46:5 26:3; dcb {entries}")
    before = received_bytes(fabric, 0)
    write(fabric, 0, tos=ROCE_TOS)
    after = received_bytes(fabric, 0)
    grown = [prio for prio in range(8) if after[prio] - before[prio] >= WRITES * WRITE_BYTES]
    assert grown == [priority]


def received_bytes(lab, rail):
    lines = lab.run("node2", f"ethtool -S {lab.netdev('node2', rail)}").splitlines()
    pairs = (line.strip().partition(": ") for line in lines)
    named = {name: value for name, _, value in pairs}
    return [int(named[f"rx_prio{prio}_bytes"]) for prio in range(8)]


def test_reboot_loses_what_was_only_set_and_keeps_what_was_written(fabric):
    netdev = fabric.netdev("node1", 0)
    fabric.run(
        "node1",
        f"dcb pfc set dev {netdev} prio-pfc 3:on; dcb app add dev {netdev} dscp-prio 26:3;"
        "sysctl -qw vm.nr_hugepages=8; echo kept > /root/kept; mkdir -p /etc/default/grub.d;"
        # The node's own boot loader is what the next boot uses. With the rate of the TSC wrong, as
        # by a starved processor.
        "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"iommu=pt tsc_early_khz=700000\"'"
        " > /etc/default/grub.d/iommu.cfg; update-grub >/dev/null 2>&1",
    )
    fabric.must("reboot", "node1")
    seen = fabric.run(
        "node1",
        f"cat /root/kept /sys/class/net/{netdev}/mtu /proc/sys/vm/nr_hugepages /proc/cmdline;"
        f"ip -4 -o addr show dev {netdev} | wc -l; dcb -j app show dev {netdev};"
        f"dcb -j pfc show dev {netdev}; date +%s",
    ).splitlines()
    assert abs(int(seen[7]) - time.time()) < CLOCK_S
    assert seen[:3] == ["kept", "1500", "0"]
    assert "iommu=pt" in seen[3].split()
    assert seen[4] == "0"
    assert json.loads(seen[5]) == {}
    assert set(json.loads(seen[6])["prio_pfc"]) <= {False, "off"}
