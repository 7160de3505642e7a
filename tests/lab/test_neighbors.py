"""The switch's side of rails, heard on the wire by a real node: node1 speaks as its switches.

The lab's Ethernet passes LLDP's group address on, which a switch would keep (lab/switch.py). Nodes
have no LLDP daemon and no way to one, so a socket sends the frames, byte by byte as real switches
are configured; tests/namespaces/test_lldp.py has the daemons. Node2 has none either.
"""

import shlex

import pytest
import yaml
from tests.lab.fleet import Fleet, read_report
from tests.lldp_switch import SEND, frame

pytestmark = pytest.mark.lab

STATE, SHARED = "provisioned", True
SWITCH, NODE = "node1", "node2"
LEAVES, PORT = ("leaf-r0", "leaf-r1"), "swp2"
UNIT, SECONDS = "announce", 900
CABLE = "test_cabling.py::test_rail_is_on_its_switch_port"
PFC = "test_switch_qos.py::test_switch_has_pfc_on_lossless_priority"
QOS = (
    PFC,
    "test_switch_qos.py::test_switch_has_bandwidth_for_lossless_priority",
    "test_switch_qos.py::test_switch_maps_roce_to_its_priority",
    "test_switch_qos.py::test_switch_takes_full_frames",
)


@pytest.fixture
def announce(lab):
    """Provide what has node1 announce a frame each second at each rail, until the test ends."""

    def start(*frames):
        pairs = [
            word for rail, each in enumerate(frames) for word in (lab.netdev(SWITCH, rail), each)
        ]
        words = shlex.join(["python3", "-c", SEND, str(SECONDS), *pairs])
        lab.run(SWITCH, f"systemd-run -q --collect --unit {UNIT} {words}")

    yield start
    lab.run(SWITCH, f"systemctl stop {UNIT} 2> /dev/null; true")


@pytest.fixture
def judge(lab, tmp_path):
    """Provide what judges node2's neighbours by the plan; returns tests with messages by state."""
    fleet = Fleet(lab, tmp_path)
    hosts = fleet.site / "hosts.yml"
    site = yaml.safe_load(hosts.read_text())
    for rail, leaf in zip(site["lab"]["hosts"][NODE]["fabric_rails"], LEAVES, strict=True):
        rail.update(leaf=leaf, switch_port=PORT)
    hosts.write_text(yaml.safe_dump(site))

    def run():
        report = tmp_path / "junit.xml"
        words = ("--limit", NODE, "-k", "cabling or switch_qos", f"--junitxml={report}")
        code, said = fleet.run("validate", *fleet.patient(), *words)
        return code, read_report(report), said

    return run


def of_rail(test, rail):
    return f"{test}[{NODE}-rail{rail}]"


def failures(found):
    """Return the tests that did not pass and were not skipped, with their messages."""
    pairs = (each.partition(" ") for each in found["failure"] + found["error"])
    return {name: message for name, _, message in pairs}


def test_right_switches_are_heard_without_a_daemon(announce, judge):
    announce(*(frame(leaf, PORT) for leaf in LEAVES))
    code, found, said = judge()
    assert code == 0, said
    wanted = {of_rail(test, rail) for test in (CABLE, *QOS) for rail in (0, 1)}
    assert wanted <= set(found["passed"]), said
    assert failures(found) == {}


def test_wrong_pfc_of_a_switch_is_named(announce, judge):
    announce(frame(LEAVES[0], PORT), frame(LEAVES[1], PORT, pfc="08,10"))
    code, found, said = judge()
    wrong = failures(found)
    assert code == 1, said
    assert wrong.keys() == {of_rail(PFC, 1)}, said
    (message,) = wrong.values()
    assert f"PFC of {LEAVES[1]} {PORT} is on for priority 4, expected priority 3" in message


def test_wrong_port_is_named(announce, judge):
    announce(frame(LEAVES[0], "swp7"), frame(LEAVES[1], PORT))
    code, found, said = judge()
    wrong = failures(found)
    assert code == 1, said
    assert wrong.keys() == {of_rail(CABLE, 0)}, said
    (message,) = wrong.values()
    assert f"neighbour is {LEAVES[0]} swp7, expected {LEAVES[0]} {PORT}" in message


def test_swapped_rails_are_named(announce, judge):
    announce(*(frame(leaf, PORT) for leaf in reversed(LEAVES)))
    code, found, said = judge()
    wrong = failures(found)
    assert code == 1, said
    assert wrong.keys() == {of_rail(CABLE, 0), of_rail(CABLE, 1)}, said
    for rail in (0, 1):
        expected = f"planned for rail {1 - rail}, expected {LEAVES[rail]} {PORT}"
        assert expected in wrong[of_rail(CABLE, rail)]


def test_silent_switch_is_not_verified(announce, judge):
    announce(frame(LEAVES[0], PORT))
    _, found, said = judge()
    assert failures(found) == {}
    assert of_rail(CABLE, 0) in found["passed"], said
    silent = [each for each in found["skipped"] if each.startswith(of_rail(CABLE, 1))]
    assert len(silent) == 1, said
    assert "no neighbour announced itself in 31 s" in silent[0]
