"""A link that flaps is waited for, and jobs start after QoS."""

import pytest
from tests.lab.play import Play
from tests.lab.rail import RAIL, Rail
from tests.tables import cases

from rdmaprov.facts import units

pytestmark = pytest.mark.lab

NODE = "node1"
SLURMD = cases(__file__, "slurmd")


@pytest.fixture
def lossless(lab, tmp_path):
    play = Play(lab, tmp_path, "roce_qos", NODE)

    def make():
        assert play.run({}).returncode == 0, play.said

    lab.begin_from("lossless", make)
    return play


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


@pytest.mark.hours
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
