"""A lab comes up, down, and up again, whatever happened in between, and leaves nothing behind."""

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from tests.lab.handle import FACTORY, LabHandle, crash, processes_with

pytestmark = pytest.mark.lab

SHARED = True

# Between them: description, keys, switch, disks, first and second machine, boot, last files.
KILL_AFTER_S = (0.3, 0.6, 1.0, 2.0, 8.0)
BUILD_KILL_AFTER_S = (2.0, 15.0)
DISK_S = 20


@pytest.fixture
def own(tmp_path, at_large):
    """Provide a lab of the test's own, which is not up yet; images come from the common cache."""
    at_large(tmp_path / "lab")
    handle = LabHandle(tmp_path / "lab", tmp_path / "site")
    yield handle
    handle.rdmaprov("down")


def kill_up(lab, after_s, *words):
    command = subprocess.Popen(
        lab.argv("up", "--site", str(lab.site), *words),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(after_s)
    command.send_signal(signal.SIGKILL)
    command.wait()


def machines(lab):
    return [each for each in processes_with(str(lab.directory)) if "qemu-system" in each]


def test_up_after_being_killed_at_any_moment_is_a_working_lab(own):
    for after_s in KILL_AFTER_S:
        kill_up(own, after_s)
    own.must("up")
    assert [node["state"] for node in own.nodes().values()] == ["up", "up"]
    assert len(machines(own)) == 2
    hosts = hosts_of(own)
    own.must("up")  # again, it changes nothing
    assert hosts_of(own) == hosts
    own.must("down")
    assert processes_with(str(own.directory)) == []
    assert not own.directory.exists()
    assert not (own.site / "hosts.yml").exists()
    assert own.rdmaprov("down").returncode == 0


def hosts_of(lab):
    """Return the site's hosts without their time limit, which follows the machine's speed."""
    hosts = yaml.safe_load((lab.site / "hosts.yml").read_text())["lab"]["hosts"]
    return {name: {**own, "ansible_ssh_timeout": 0} for name, own in hosts.items()}


def test_killed_build_leaves_no_process_and_no_half_image(tmp_path):
    lab = LabHandle(tmp_path / "lab", tmp_path / "site", tmp_path / "cache")
    for after_s in BUILD_KILL_AFTER_S:
        kill_up(lab, after_s)
        # One that is killed in the middle of a write ends when the disk is done with it.
        end = time.monotonic() + DISK_S
        while (left := processes_with(str(tmp_path))) and time.monotonic() < end:
            time.sleep(0.1)
        assert left == []
        finished = list((tmp_path / "cache" / "images").glob("*.img"))
        assert all(json.loads(path.with_suffix(".json").read_text()) for path in finished)
    lab.must("down", "--purge")
    assert [
        path for path in tmp_path.rglob("*") if not path.is_dir() and path.suffix != ".lock"
    ] == []


def test_second_up_at_the_same_time_is_refused(own):
    first = subprocess.Popen(own.argv("up", "--site", str(own.site)), stderr=subprocess.DEVNULL)
    time.sleep(3)
    second = own.rdmaprov("up")
    first.send_signal(signal.SIGINT)
    assert first.wait() == 130
    assert second.returncode == 1
    assert "another command is changing the lab" in second.stderr


def test_port_taken_meanwhile_is_replaced(lab):
    port = lab.nodes()["node1"]["port"]
    crash(lab, "node1")
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        done = lab.rdmaprov("restore", FACTORY, "node1")
    assert done.returncode == 0, done.stderr
    assert f"port {port} is in use by another program" in done.stderr
    assert lab.nodes()["node1"]["port"] != port
    assert lab.must("ssh", "node1", "--", "hostname") == "node1\n"
    hosts = (Path(json.loads(lab.must("status", "--json"))["site"]) / "hosts.yml").read_text()
    assert str(lab.nodes()["node1"]["port"]) in hosts
    assert str(port) not in hosts


def test_ssh_passes_input_output_and_exit_code(lab):
    done = lab.rdmaprov("ssh", "node2", "--", "cat; echo oops >&2; exit 7", stdin="hello\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "oops\n", 7)


def test_console_shows_the_login_prompt(lab):
    assert "node2 login:" in lab.must("console", "node2")


@pytest.fixture
def renewed(lab):
    """Provide the name of a node that is factory-new after the test, and save that."""
    yield "node2"
    lab.keep(FACTORY)


def test_reset_brings_a_new_disk_and_keeps_the_machine(lab, renewed):
    lab.run(renewed, "touch /root/mark")
    before = lab.nodes()["node2"]
    lab.must("reset", "node2")
    refused = lab.rdmaprov("restore", FACTORY)
    assert refused.returncode == 2
    assert "the saved state 'factory' of node2 no longer exists" in refused.stderr
    assert f"rdmaprov lab restore {FACTORY} node1" in refused.stderr
    assert lab.call("node2", "test -e /root/mark").returncode == 1
    assert lab.nodes()["node2"] == before


def test_replace_brings_another_machine_of_the_same_name(lab, renewed):
    host_keys = (lab.directory / "known_hosts").read_text().splitlines()
    lab.run(renewed, "touch /root/mark")
    before = lab.nodes()["node2"]
    lab.must("replace", "node2")
    # Whichever states earlier tests saved: this node's are gone, the other's are not.
    assert {tuple(state["nodes"]) for state in lab.saved_states()} == {("node1",)}
    assert lab.call("node2", "test -e /root/mark").returncode == 1
    after = lab.nodes()["node2"]
    assert lab.run("node2", "hostname") == "node2\n"
    assert after["port"] == before["port"]
    assert not {rail["mac"] for rail in after["rails"]} & {rail["mac"] for rail in before["rails"]}
    now = (lab.directory / "known_hosts").read_text().splitlines()
    assert now[0] == host_keys[0]
    assert now[1] != host_keys[1]
