"""A watch of two real nodes under RDMA: each fault is named where a counter of Soft-RoCE tells it.

What the nodes count: of Soft-RoCE packets sent and received, gaps, NAKs, timeouts and lost links;
of the network device bytes and changes of the carrier; of the stand-in of mlx5 bytes and packets by
priority, discards and links that went down. No pauses, marks and notifications.
"""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.lab.fleet import NODES, Fleet
from tests.tables import cases

pytestmark = pytest.mark.lab

STATE = "provisioned"
BAD, RAIL = "node2", 1
NAMED_S = 10
HEALTHY_S = 10
LOAD_S = 120
# One rail has load, which is no imbalance below 1 % of the line: emulated rails reach 20 MB/s.
LINE_RATE = "fabric_link_gbps: 40"
# A line of watch.log: when, whom it names, and what of.
LINE = re.compile(r"[^:]+: (?P<where>[^:]+): (?P<title>[^:]+): ")
BOTH = f"2 nodes (node[1-2]) rail {RAIL}"
OWN = f"{BAD} rail {RAIL}"
NOT_PROVEN = ("unknown", "unreachable")
# Few messages in flight, and a packet is sent again after a second only, as accept has it for
# Soft-RoCE: a processor that waits for its turn loses no packet. Both ends find each other over the
# other rail, so that the fault meets RDMA alone; whatever ends a run, the next one begins. A device
# of Soft-RoCE has 1,024 GIDs: a process for each would take a busy emulated node over a minute.
LOAD = cases(__file__, "load")
# What tells why no load runs: what perftest printed, and where its two connections stand.
STUCK = (
    "journalctl -n 40 -u 'load*'; ps -C sh,ib_write_bw -o etime,args; ss -tnp; "
    "ip -br addr; ip neigh; rdma link"
)
# A prepared rail, and what breaks it; $D is the network device, $PEER the other node's address.
PRIORITY = "dcb app flush dev $D dscp-prio || true"
LOSS = "tc qdisc replace dev $D root netem loss 20%"
SLOW = "tc qdisc replace dev $D root netem rate 1mbit"
FLAP = (
    "systemd-run -q --collect --unit flap sh -c "
    "'while :; do ip link set '$D' down; sleep 1; ip link set '$D' up; sleep 2; done'"
)
# A write that loses a packet waits for a second, so others fill the buffer: the echoes of pings.
NO_PFC = (
    "dcb pfc set dev $D prio-pfc 3:off || true; sleep 5; "
    "systemd-run -q --collect --unit pings ping -q -i 0.02 -Q 106 $PEER"
)
OVERFLOW = "echo 3 5 > /sys/kernel/standin_mlx5e/$D/rx_overflow"
SENT = f"cat /sys/class/infiniband/mlx5_{RAIL}/ports/1/hw_counters/sent_pkts"
SAMPLER = (
    "cat $(pgrep -f 'stdin[.]buffer[.]read' | sed 's,.*,/proc/&/schedstat,') | cut -d ' ' -f 1"
)


class Watched:
    def __init__(self, fleet):
        self.fleet = fleet
        self.process = fleet.start_until("watch", "watch.log", "no counter of", "--for", "5m")
        self.log = fleet.newest() / "logs/watch.log"
        self.began, self.cost = time.monotonic(), self._cost()

    def named(self):
        """Return whom and what the log names so far, but not what is only unknown."""
        found = [LINE.match(line) for line in self.log.read_text().splitlines()]
        pairs = [(each["where"], each["title"]) for each in found if each]
        return [pair for pair in pairs if pair[1] not in NOT_PROVEN]

    def wait_for(self, *wanted):
        began = time.monotonic()
        while time.monotonic() - began <= NAMED_S:
            if set(wanted) & set(self.named()):
                return time.monotonic() - began
            time.sleep(0.1)
        return None

    def end(self):
        seconds, before, after = time.monotonic() - self.began, self.cost, self._cost()
        self.process.send_signal(signal.SIGINT)
        said, _ = self.process.communicate(timeout=60)
        results = self.fleet.results()
        lines = [
            f"{name}: {count - before[name]:.2f} s of processor in {seconds:.0f} s"
            for name, count in after.items()
        ]
        lines += [
            f"{name}: {node['cpu_share'] or 0:.2%} of a core, {node['answers']} answers"
            for name, node in results["nodes"].items()
        ]
        show(said, *lines)
        return self.process.returncode, results, (after[BAD] - before[BAD]) / seconds

    def _cost(self):
        nodes = {
            name: sum(map(int, self.fleet.lab.run(name, SAMPLER).split())) / 1e9 for name in NODES
        }
        return {**nodes, "controller, with ssh": session_seconds(self.process.pid)}


def show(*lines):
    sys.stdout.write("\n".join([*lines, ""]))


def session_seconds(leader):
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def address(lab, node, rail):
    said = lab.run(node, f"ip -4 -o addr show dev {lab.netdev(node, rail)} scope global")
    return said.split()[3].partition("/")[0]


def start_load(lab):
    for number, (server, client) in enumerate((NODES, NODES[::-1])):
        port, peer = 18600 + number, address(lab, server, 1 - RAIL)
        for node, to in ((server, ""), (client, peer)):
            script = LOAD.format(rail=RAIL, port=port, peer=to)
            file = f"/root/load{port}.sh"
            unit = f"systemd-run -q --collect --unit load{port} sh {file}"
            lab.run(node, f"cat > {file} << 'END'\n{script}END\n{unit}")
    for node in NODES:
        first, end = int(lab.run(node, SENT)), time.monotonic() + LOAD_S
        while int(lab.run(node, SENT)) < first + 1000:
            assert time.monotonic() < end, "\n".join(lab.run(each, STUCK) for each in NODES)
            time.sleep(1)


def break_rail(lab, command):
    peer = address(lab, NODES[0], RAIL)
    lab.run(BAD, f"D={lab.netdev(BAD, RAIL)} PEER={peer}\n{command}")


@pytest.fixture
def start(lab, tmp_path):
    """Provide what starts a watch of nodes under load, after HEALTHY_S without a verdict."""
    begun = []

    def begin(prepare="true"):
        break_rail(lab, prepare)
        start_load(lab)
        fleet = Fleet(lab, tmp_path)
        variables = fleet.site / "group_vars/all.yml"
        variables.write_text(
            re.sub(r"(?m)^fabric_link_gbps: .*$", LINE_RATE, variables.read_text())
        )
        watched = Watched(fleet)
        begun.append(watched)
        time.sleep(HEALTHY_S)
        assert watched.named() == [], watched.log.read_text()
        return watched

    yield begin
    for each in begun:
        if each.process.poll() is None:
            each.process.kill()


def unknown_texts(results):
    return [each["what"] for each in results["findings"] if not each["proven"]]


@pytest.mark.parametrize(
    ("prepare", "command", "wanted"),
    [
        pytest.param("true", PRIORITY, [(OWN, "wrong priority")], id="wrong priority"),
        pytest.param("true", FLAP, [(OWN, "link")], id="flapping"),
        pytest.param(NO_PFC, OVERFLOW, [(OWN, "loss")], id="lossy, in its own buffer"),
        pytest.param("true", LOSS, [(OWN, "loss"), (BOTH, "loss")], id="lossy, on the way"),
    ],
)
def test_a_bad_rail_is_named_in_time_and_no_other_one(lab, start, prepare, command, wanted):
    """A rail's own counters name it alone.

    Of packets that netem takes on their way out, no counter of a device knows. Both ends notice
    that some are missing, and of two nodes nothing tells at which end: the verdict names both.
    """
    watched = start(prepare)
    break_rail(lab, command)
    after_s = watched.wait_for(*wanted)
    log = watched.log.read_text()
    code, results, _ = watched.end()
    assert after_s is not None, log
    show(f"named {after_s:.1f} s after the fault")
    assert code == 1
    accused = {
        (node, each["rail"])
        for each in results["findings"]
        if each["proven"]
        for node in each["nodes"]
    }
    others = {("node1", RAIL)} if command == LOSS else set()
    assert (BAD, RAIL) in accused
    assert accused <= {(BAD, RAIL)} | others, results["findings"]


def test_a_slow_rail_is_not_verified(lab, start):
    """A rail is slow beside the others of its node, while these are busy: from 1 % of the line.

    Emulated nodes reach a tenth of that. So the watch must say that it compared nothing; it may
    name the path, if packets wait for so long that they are sent again.
    """
    watched = start()
    break_rail(lab, SLOW)
    time.sleep(NAMED_S)
    code, results, share = watched.end()
    assert any("imbalance" in each for each in unknown_texts(results)), results
    assert code in (1, 4)
    proven = [each for each in results["findings"] if each["proven"]]
    assert {(each["kind"], each["rail"]) for each in proven} <= {("loss", RAIL)}, proven
    # One percent is for a real processor: an emulated one, which others share, is some thirty times
    # slower. What may never be is a program that reads without a pause.
    assert share < 0.3
