"""A job is not interrupted: it is found, a link that flaps is waited for, jobs start after QoS."""

import pytest
from tests.lab.fleet import Fleet
from tests.lab.play import Play
from tests.lab.rail import RAIL, Rail
from tests.tables import cases

from rdmaprov.facts import units

pytestmark = pytest.mark.lab

NODE = "node1"
JOB = "rdma-job"
# What a job has open before it makes a queue pair; the shell becomes the program.
HOLD = "exec 3<> /dev/infiniband/uverbs0; exec sleep 86400"
SLURMD = cases(__file__, "slurmd")


@pytest.fixture
def fleet(lab, tmp_path):
    """Provide a site of the test's own, whose runs are its own too."""
    return Fleet(lab, tmp_path)


@pytest.fixture
def job(lab):
    """Provide the process id of a job with an RDMA device open."""
    lab.run(NODE, f"modprobe ib_uverbs; udevadm settle; systemd-run --unit={JOB} sh -c '{HOLD}'")
    yield lab.run(NODE, f"systemctl show -p MainPID --value {JOB}").strip()
    lab.run(NODE, f"systemctl stop {JOB}; systemctl reset-failed {JOB} 2> /dev/null; true")


@pytest.fixture
def lossless(lab, tmp_path):
    play = Play(lab, tmp_path, "roce_qos", NODE)

    def make():
        assert play.run({}).returncode == 0, play.said

    lab.begin_from("lossless", make)
    return play


def mtu(lab, node):
    return lab.run(node, f"cat /sys/class/net/{lab.netdev(node, RAIL)}/mtu").strip()


def test_busy_node_is_refused_by_name_and_changed_by_force(lab, fleet, job):
    code, said = fleet.run("plan", "--roles", "mtu")
    user = f"pid {job} of root, sleep: /dev/infiniband/uverbs0"
    assert (code, f"--force-busy\n  {NODE}: {user}\n" in said) == (5, True), said
    before = mtu(lab, NODE)

    code, said = fleet.run("apply", "--roles", "mtu")
    assert code == 1, said
    assert f"{NODE}: Survey the node: failed: busy: {user}. It would be interrupted: " in said
    assert mtu(lab, NODE) == before
    assert mtu(lab, "node2") == "4200"  # the other node goes on

    said = fleet.apply("--roles", "mtu", "--limit", NODE, "--force-busy")
    assert mtu(lab, NODE) == "4200", said
    # Nothing is left to change, so nothing would be interrupted.
    fleet.apply("--roles", "mtu", "--limit", NODE)


LINK = "cat /sys/class/net/$D/carrier /sys/class/net/$D/carrier_changes"


def test_flap_of_a_pfc_change_is_waited_for(lab, lossless):
    rail = Rail(lab, NODE)
    wrong = "dcb pfc set dev $D prio-pfc all:off 5:on; sleep 4"
    carrier, before = rail.run(f"ip link set $D up; {wrong}; {LINK}").split()
    assert carrier == "1"
    assert lossless.changes({})
    carrier, after = rail.run(LINK).split()
    assert (carrier, int(after) - int(before)) == ("1", 2)

    # The same code in the unit: as it ends, the link is there.
    unit = f"rdmaprov-roce-qos@{units.escape(rail.netdev)}.service"
    carrier, again = rail.run(f"{wrong}; systemctl restart {unit}; {LINK}").split()
    assert (carrier, int(again) - int(after)) == ("1", 4)


@pytest.mark.usefixtures("lossless")
def test_jobs_daemon_starts_after_qos_at_boot(lab):
    lab.run(
        NODE,
        f"cat > /etc/systemd/system/slurmd.service << 'END'\n{SLURMD}END\n"
        "systemctl daemon-reload; systemctl enable slurmd.service",
    )
    unit = f"rdmaprov-roce-qos@{units.escape(lab.netdev(NODE, RAIL))}.service"
    assert unit in lab.run(NODE, "systemctl show -p After --value slurmd.service").split()
    lab.must("reboot", NODE)
    lab.run(NODE, "systemctl is-system-running --wait || true")
    qos, slurmd = (
        int(lab.run(NODE, f"systemctl show -p {name} --value {of}"))
        for name, of in (
            ("ExecMainExitTimestampMonotonic", unit),
            ("ExecMainStartTimestampMonotonic", "slurmd.service"),
        )
    )
    assert 0 < qos <= slurmd
