"""Each fault of the catalogue has its effect on a configured node, and is taken back.

All of it on rail 0 of node1; the wire is observed towards node2.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.tables import cases

from rdmaprov.errors import RdmaprovError
from rdmaprov.lab import faults, ssh

pytestmark = pytest.mark.lab

SHARED = True
NODE = "node1"
PEER = "node2"
CONFIGURED = "configured-by-hand"

# What roles configure, by hand. The peer has the other end of both rails.
CONFIGURE = cases(__file__, "configure")
CONFIGURE_NODE = cases(__file__, "configure_node")
RAIL = "D=$(cat /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0); "
PROBE_DPKG = cases(__file__, "probe_dpkg")


def lossy(text):
    lost = re.search(r"([\d.]+)% packet loss", text)
    assert lost, text
    return "loss" if float(lost[1]) > 0 else "no loss"


def slow(text):
    """Return "slow" or "fast": 60,000 bytes take 96 ms at 5 Mbit/s."""
    shortest = re.search(r"= ([\d.]+)/", text)
    assert shortest, text
    return "slow" if float(shortest[1]) > 96 else "fast"


@dataclass(frozen=True)
class Case:
    """A fault and how it shows: what a command prints, before and while it is there."""

    name: str
    observe: str
    healthy: str
    broken: str
    on: str = NODE
    read: Callable[[str], str] = str.strip
    by_login: bool = False


PFC = RAIL + "dcb -j pfc show dev $D prio-pfc"
APP = RAIL + "dcb -j app show dev $D dscp-prio; cat /sys/kernel/standin_mlx5e/$D/trust"
ETS = RAIL + "dcb -j ets show dev $D tc-tsa tc-bw prio-tc"
TOS = (
    "cat /sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos "
    "/sys/class/infiniband/mlx5_0/tc/1/traffic_class; echo end"
)
PAGES = "cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages"
PARAMETERS = (
    "cat /sys/module/mlx5_core/parameters/*; modprobe -c | grep '^options mlx5_core' || echo none"
)
PEERMEM = (
    "lsmod | grep -c ^nvidia_peermem; ls /sys/kernel/mm/memory_peers 2> /dev/null || echo none"
)
MEMLOCK = "ulimit -l; systemd-run --quiet --pipe --wait sh -c 'ulimit -l'"
LINK = (
    "rdma link show mlx5_0/1 | cut -d ' ' -f 3-4; "
    + RAIL
    + "ip -o -6 addr show dev $D scope global | grep -c 2001:db8; ip route show table 100 | wc -l"
)
# Linux answers ARP for every address on every netdev, so ping crosses planes; GIDs do not.
PLANES = (
    "cat /sys/class/infiniband/mlx5_0/ports/1/gids/* 2> /dev/null | grep -o 'ffff:c612:.*'; "
    "ip -o route get 198.18.0.2 | grep -o 'dev [a-z0-9]*'; ip route show table 100 | wc -l"
)
GIDS = "cat /sys/class/infiniband/mlx5_0/ports/1/gids/* 2> /dev/null | grep ffff:c612 || echo none"
OVERFLOW = (  # answers come back with the DSCP of the question
    "pauses() { ethtool -S $D | sed -n 's/.*tx_prio3_pause: //p'; }; "
    + RAIL
    + "a=$(pauses); ping -q -Q 104 -c 30 -i 0.01 198.18.0.2 > /dev/null; b=$(pauses); "
    "[ $b -gt $a ] && echo pauses || echo quiet"
)
VERSIONS = (
    "modinfo -F version standin_ofed; cat /sys/module/standin_ofed/version; "
    "cat /sys/module/nvidia_peermem/version; cat /sys/class/infiniband/mlx5_1/tc/1/traffic_class"
)
DISK = "sh -c 'echo some > /root/probe' 2> /dev/null && echo room || echo full; rm -f /root/probe"

CASES = (
    Case("mtu-wrong", "ibv_devinfo -d mlx5_0 | grep -o 'active_mtu:.*'", "4096", "1024"),
    Case("pfc-wrong-priority", PFC, r"(false,){3}true,(false,){3}false", r"(false,){4}true"),
    Case("pfc-two-priorities", PFC, r"(false,){3}true,false", r"(false,){3}true,true,false"),
    Case("trust-pcp", APP, r"26,3.*48,6[^$]*\ndscp", r"^\{[^0-9]*\}[^0-9]*\npcp"),
    Case("dscp-entry-lost", APP, r"26,3.*48,6", r"\[\[48,6\]\]"),
    Case("ets-changed", ETS, r"60,100,100,40", r'\["strict"(,"strict"){7}\]'),
    Case("tos-lost", TOS, r"^106\nGlobal tclass=106\nend$", r"^0\nend$"),
    Case("hugepages-short", PAGES, r"^40\n40$", r"^30\n30$"),
    Case("hugepages-one-node", PAGES, r"^40\n40$", r"^80\n0$"),
    Case("module-parameter-not-running", PARAMETERS, r"^1\n1\noptions", r"^1\n0\noptions"),
    Case("module-parameter-not-configured", PARAMETERS, r"^1\n1\noptions", r"^1\n1\nnone"),
    Case("peermem-unloaded", PEERMEM, r"^1\nnv_mem$", r"^0\nnone$"),
    Case("memlock-limited", MEMLOCK, r"^unlimited\nunlimited$", r"^64\n64$", by_login=True),
    Case("rdma-link-down", LINK, r"^state ACTIVE\n1\n1$", r"^state DOWN\n0\n0$"),
    Case("rail-addresses-swapped", PLANES, r"c612:0001\ndev ens1\n1", r"c612:0101\ndev ens2"),
    Case("rail-without-ipv4-gid", GIDS, r"ffff:c612:0001$", r"^none$"),
    Case("rail-drops-packets", "ping -q -c 60 -i 0.01 198.18.0.2", "^no loss", "^loss", read=lossy),
    Case("rail-slow", "ping -q -c 20 -i 0.2 -s 60000 198.18.0.2", "fast", "slow", read=slow),
    Case("rail-overflow", OVERFLOW, "^quiet$", "^pauses$"),
    Case("driver-version-different", VERSIONS, r"25\..*\n25\..*\n580", r"24\..*\n24\..*\n570"),
    Case("nccl-conf-stale", "cat /etc/nccl.conf", r"^NCCL_IB_TC=106$", r"NCCL_IB_TC=0"),
    Case("numa-balancing-on", "cat /proc/sys/kernel/numa_balancing", "^0$", "^1$"),
    Case("disk-full", DISK, "room", "full"),
    Case("dpkg-lock-held", PROBE_DPKG, "free", "held"),
)


@pytest.fixture(scope="module")
def node(lab):
    def configure():
        lab.run(NODE, "set -e; " + CONFIGURE.format(host=1) + CONFIGURE_NODE)
        lab.run(PEER, "set -e; " + CONFIGURE.format(host=2))

    lab.begin_from(CONFIGURED, configure)
    return NODE


@pytest.fixture
def configured_again(lab, node):
    """Provide the name of a node that the test may leave in any state."""
    yield node
    lab.begin_from(CONFIGURED)


@pytest.fixture(autouse=True)
def _leave_no_fault(lab, node):
    yield
    assert lab.rdmaprov("heal", node).returncode == 0


def inject(lab, node, name, *words):
    done = lab.rdmaprov("fault", node, name, *words)
    assert done.returncode == 0, done.stderr


def heal(lab, node):
    done = lab.rdmaprov("heal", node)
    assert done.returncode == 0, done.stderr
    return done.stderr.strip().partition(": ")[2]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault_shows_and_is_healed(lab, node, case):
    def observe():
        run = lab.login if case.by_login else lab.run
        return case.read(run(case.on, case.observe))

    before = observe()
    assert re.search(case.healthy, before)
    inject(lab, node, case.name)
    seen = observe()
    assert re.search(case.broken, seen)
    inject(lab, node, case.name)
    assert observe() == seen
    assert re.fullmatch(rf"healed {case.name}( of rail 0)?", heal(lab, node))
    assert observe() == before


def test_sshd_hangs_connects_and_never_greets(lab, node):
    assert ssh.answers(lab.layout, lab.node(node))
    inject(lab, node, "sshd-hangs")
    assert not ssh.answers(lab.layout, lab.node(node))
    inject(lab, node, "sshd-hangs")
    assert heal(lab, node) == "healed sshd-hangs"
    assert ssh.answers(lab.layout, lab.node(node))


def test_catalogue_is_tested_whole():
    assert {case.name for case in CASES} | {"sshd-hangs"} == set(faults.catalogue())


def test_faults_are_taken_back_the_latest_first(lab, node):
    before = lab.run(node, PFC)
    for name in ("pfc-two-priorities", "pfc-wrong-priority", "pfc-two-priorities"):
        inject(lab, node, name)
    inject(lab, node, "pfc-wrong-priority", "--rail", "1")
    assert heal(lab, node) == (
        "healed pfc-wrong-priority of rail 1, pfc-two-priorities of rail 0, "
        "pfc-wrong-priority of rail 0, pfc-two-priorities of rail 0"
    )
    assert lab.run(node, PFC) == before


def test_fault_repaired_in_the_meantime_is_left_alone(lab, node):
    inject(lab, node, "mtu-wrong")
    inject(lab, node, "nccl-conf-stale")
    lab.run(node, RAIL + "ip link set $D mtu 4300; echo NCCL_IB_TC=107 > /etc/nccl.conf")
    assert heal(lab, node) == (
        "healed nccl-conf-stale (repaired before), mtu-wrong of rail 0 (repaired before)"
    )
    seen = lab.run(node, RAIL + "cat /sys/class/net/$D/mtu /etc/nccl.conf; ip link set $D mtu 4200")
    assert seen.split() == ["4300", "NCCL_IB_TC=107"]
    lab.run(node, "echo NCCL_IB_TC=106 > /etc/nccl.conf")


def test_exchanged_addresses_are_healed_where_networkd_added_its_own(lab, node):
    before = lab.run(node, PLANES)
    inject(lab, node, "rail-addresses-swapped")
    lab.run(node, RAIL + "ip address add 198.18.0.1/24 brd + dev $D")
    assert heal(lab, node) == "healed rail-addresses-swapped of rail 0"
    assert lab.run(node, PLANES) == before


def test_interrupted_fault_is_healed(lab, node):
    fault = faults.find("pfc-wrong-priority")
    killed = replace(fault, script=fault.script.replace(':on"\n', ':on"\n\tkill -9 $$\n'))
    before = lab.run(node, PFC)
    with pytest.raises(RdmaprovError):
        faults.inject(killed, lab.node(node), lab.layout.node(node), 0)
    assert lab.run(node, PFC) != before
    assert heal(lab, node) == "healed pfc-wrong-priority of rail 0"
    assert lab.run(node, PFC) == before


@pytest.mark.usefixtures("configured_again")
def test_fault_with_nothing_to_break_is_refused_and_leaves_no_record(lab):
    lab.run(PEER, RAIL + "dcb pfc set dev $D prio-pfc all:off || true")
    done = lab.rdmaprov("fault", PEER, "pfc-wrong-priority")
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {PEER}: rail 0 has PFC on no priority\n")
    assert lab.rdmaprov("heal", PEER).stderr.strip() == f"{PEER}: nothing to heal"


def test_reboot_ends_what_it_ends_on_metal(lab, configured_again):
    node = configured_again
    for name in ("mtu-wrong", "sshd-hangs", "nccl-conf-stale"):
        inject(lab, node, name)
    assert lab.rdmaprov("reboot", node).returncode == 0
    seen = lab.run(node, RAIL + "cat /sys/class/net/$D/mtu /etc/nccl.conf").split()
    assert seen[0] == "1500"
    assert "NCCL_IB_TC=0" in seen
    assert heal(lab, node) == "healed nccl-conf-stale"
    assert lab.run(node, "cat /etc/nccl.conf") == "NCCL_IB_TC=106\n"
