"""Nodes are saved and restored as they were, whatever happened to them in between."""

import subprocess
import time

import pytest
from tests.lab.fleet import NODES
from tests.lab.handle import FACTORY
from tests.tables import cases

from rdmaprov.lab import snapshot, ssh

pytestmark = pytest.mark.lab

NODE = "node1"
FABRIC = "fabric"
CLOCK_S = 3
# Between them: the machines end, start, load, answer; a save pauses, writes, runs on.
KILL_AFTER_S = {"restore": (0.3, 1.0, 2.5), "save": (0.25, 0.4, 0.6)}
CONFIGURE = cases(__file__, "configure")
BREAK = """
rm /etc/hostname; touch /root/new; rdma link del mlx5_1; date -s 2020-01-01
ip link set $(cat /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0) mtu 1500
"""
LOOK = """
cat /etc/hostname /proc/sys/kernel/random/boot_id; ls /root; rdma link; ip -br address; ip -br link
"""
RAILS = "for rail in 0 1; do ping -q -c 2 -W 5 -M do -s 4172 198.18.$rail.2; done"


def look(lab, node=NODE):
    """Return what a boot, or what breaks the node, would change."""
    return lab.run(node, LOOK)


def assert_right_time(lab, node):
    assert abs(float(lab.run(node, "date +%s.%N")) - time.time()) < CLOCK_S


def assert_all_up(lab):
    assert [node["state"] for node in lab.nodes().values()] == ["up", "up"]
    for node in NODES:
        assert_right_time(lab, node)


def kill(lab, after_s, *words):
    """Start a verb of the lab, and kill it without a warning."""
    command = subprocess.Popen(
        lab.argv(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(after_s)
    command.kill()
    command.wait()
    lab.disconnect()


def configure(lab):
    for host, node in enumerate(NODES, start=1):
        lab.run(node, CONFIGURE.format(host=host))


def test_broken_node_is_as_it_was_and_has_the_right_time(lab):
    lab.begin_from(FABRIC, lambda: configure(lab))
    before = look(lab)
    lab.run(NODE, BREAK)
    assert look(lab) != before
    lab.must("restore", FABRIC)
    assert look(lab) == before
    assert_right_time(lab, NODE)
    lab.run(NODE, RAILS)


def test_open_connection_ends_with_a_restore(lab):
    words = ssh.command(lab.layout, NODE, ["echo open; sleep 600"])
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as connection:
        assert connection.stdout is not None
        assert connection.stdout.readline() == b"open\n"
        lab.must("restore", FACTORY, NODE)
        assert connection.wait(timeout=10) == 255


@pytest.mark.parametrize("verb", ["restore", "save"])
def test_lab_works_after_a_verb_was_killed_at_any_moment(lab, verb):
    """A state that is listed after that can be restored."""
    name = {"restore": FACTORY, "save": "cut"}[verb]
    for after_s in KILL_AFTER_S[verb]:
        kill(lab, after_s, verb, name)
        lab.must("up")
        assert_all_up(lab)
    for state in lab.saved_states():
        if state["name"] == name:
            lab.must("restore", name)
            assert_all_up(lab)


def test_node_left_paused_is_shown_and_runs_on_with_the_right_time(lab):
    directory = lab.layout.node(NODE)
    (directory / "interrupted").touch()
    snapshot.pause(NODE, directory)
    time.sleep(2 * CLOCK_S)
    assert lab.nodes()[NODE]["state"] == "paused"
    assert f"{NODE} is paused" in lab.rdmaprov("heal", NODE).stderr
    lab.must("up")
    assert_all_up(lab)
