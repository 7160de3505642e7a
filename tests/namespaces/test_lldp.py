"""Cables and QoS of switches, by real LLDP daemons: a switch for each rail, and a node.

The switches are lldpd with DCBX TLVs, byte by byte, of a switch that has lossless RoCE.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host
from tests.lldp_switch import RIGHT, SEND, frame, framed
from tests.namespaces.nodes import Namespaces, run
from tests.tables import cases
from tests.unit.helpers.shell import execute
from tests.validate.runner import FakeHosts, judge, modules

from rdmaprov.inventory import load_site

KINDS = ["--net", "--pid", "--mount", "--uts", "--ipc"]
INIT = cases(__file__, "init")
# A switch that speaks each second: tests need not wait for 30.
SWITCH = cases(__file__, "switch")
# Each lldpcli writes the whole configuration back that it read, lldpd's own at its start too, and
# that one ends before the first frame is sent.
START = cases(__file__, "start")
CHANGE = cases(__file__, "change")
QOS = "test_switch_qos.py::"
CABLE = "test_cabling.py::test_rail_is_on_its_switch_port"
LIMIT_S = 60


def rail(index: int, leaf: str, port: str) -> dict[str, str]:
    return {"netdev": f"rail{index}", "leaf": leaf, "switch_port": port}


class NamespaceBackend(BaseBackend):  # type: ignore[misc] # testinfra has no types
    NAME = "namespace"

    def __init__(self, node: Namespaces) -> None:
        super().__init__(node.name)
        self.node = node
        self.asked: set[str] = set()
        self.known: dict[str, CommandResult] = {}

    def run(self, command, *args, **_options):
        text = self.get_command(command, *args)
        if text not in self.known:
            self.known[text] = self._run(text)
        return self.known[text]

    def _run(self, text):
        done = subprocess.run(
            ["nsenter", "-t", str(self.node.pid), "-a", "--", "sh", "-c", text],
            env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "LC_ALL": "C"},
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
        )
        return self.result(done.returncode, text.encode(), done.stdout, done.stderr)


class Fabric:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.node = Namespaces("gpu1", INIT.format(name="gpu1"), KINDS)
        self.switches = []
        for index in range(2):
            switch = Namespaces(f"leaf-r{index}", INIT.format(name=f"leaf-r{index}"), KINDS)
            self.switches.append(switch)
            # In its network alone: the node's process has no number inside of the switch.
            run(
                "nsenter", "-t", str(switch.pid), "-n", "--",
                "ip", "link", "add", "swp1", "up", "type", "veth",
                "peer", "name", f"rail{index}", "netns", str(self.node.pid),
            )  # fmt: skip
            self.node.enter("ip", "link", "set", f"rail{index}", "up")
            self.announce(index, START)

    def announce(self, switch: int, script: str = CHANGE, **tlvs: str) -> None:
        lines = SWITCH.format(**{**RIGHT, **tlvs})
        self.switches[switch].enter("sh", "-ec", script.format(lines=lines))

    def start_daemon(self) -> None:
        """Have lldpd on the node, which says nothing itself."""
        self.node.enter("lldpd", "-r", "-I", "rail*")

    def stop_daemon(self, of: Namespaces) -> None:
        ends = "while lldpctl > /dev/null 2>&1; do sleep 0.1; done"
        of.enter("sh", "-ec", f"kill $(cat /run/lldpd.pid); {ends}")

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + LIMIT_S
        while text not in self.node.enter("lldpctl", "-f", "json0"):
            assert time.monotonic() < end, f"lldpd does not know {text}"
            time.sleep(0.2)

    def swap(self) -> None:
        for old, new in (("rail0", "spare"), ("rail1", "rail0"), ("spare", "rail1")):
            self.node.enter("ip", "link", "set", old, "down")
            self.node.enter("ip", "link", "set", old, "name", new)
        for name in ("rail0", "rail1"):
            self.node.enter("ip", "link", "set", name, "up")

    def site(self, **variables: object) -> Path:
        rails = [rail(index, f"leaf-r{index}", "swp1") for index in (0, 1)]
        python = f"nsenter -t {self.node.pid} -a -- {sys.executable}"
        host = {"ansible_connection": "local", "ansible_python_interpreter": python}
        fabric = {"fabric_kind": "roce", "fabric_link_gbps": 100, "fabric_rails": rails}
        site = self.directory / "site"
        site.mkdir(exist_ok=True)
        groups = {"all": {"hosts": {"gpu1": host}, "vars": {**fabric, **variables}}}
        (site / "hosts.yml").write_text(yaml.safe_dump(groups))
        return site

    def judged(self, **variables: object) -> dict[tuple[str, str], tuple[str, str]]:
        fleet = load_site(self.site(**variables), None)
        hosts = FakeHosts({"gpu1": Host(NamespaceBackend(self.node))})
        suite = {name: each for name, each in modules().items() if name in FILES}
        return {(o.test, o.target): (o.state, o.said) for o in judge(suite, fleet, hosts)}

    def down(self) -> None:
        for each in (self.node, *self.switches):
            each.kill()


FILES = ("test_cabling.py", "test_switch_qos.py")


@pytest.fixture
def fabric(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: a node is namespaces")
    made = Fabric(tmp_path)
    try:
        yield made
    finally:
        made.down()


def failed(outcomes):
    return {key: said for key, (state, said) in outcomes.items() if state != "passed"}


def of_rails(outcomes):
    return {key: each for key, each in outcomes.items() if key[1] != "fleet"}


def test_lldpd_on_the_node_tells_cables_and_qos(fabric):
    fabric.start_daemon()
    fabric.wait_for("leaf-r0")
    fabric.wait_for("leaf-r1")
    right = of_rails(fabric.judged())
    assert len(right) == 10
    assert failed(right) == {}

    fabric.announce(1, pfc="08,10", frame="05,f2")
    fabric.wait_for("08,10")
    wrong = failed(of_rails(fabric.judged()))
    assert wrong.keys() == {
        (QOS + "test_switch_has_pfc_on_lossless_priority", "gpu1-rail1"),
        (QOS + "test_switch_takes_full_frames", "gpu1-rail1"),
    }
    said = " ".join(wrong.values())
    assert "gpu1 rail1: running: PFC of leaf-r1 swp1 is on for priority 4, expected prio" in said
    assert "largest frame of leaf-r1 swp1 is 1522 bytes, expected at least 9014" in said


def test_frames_tell_the_same_without_a_daemon(fabric):
    started = time.monotonic()
    assert failed(of_rails(fabric.judged())) == {}
    assert time.monotonic() - started < 25  # it does not wait for 31 s where all have spoken

    fabric.swap()
    wrong = failed(of_rails(fabric.judged()))
    assert wrong.keys() == {(CABLE, "gpu1-rail0"), (CABLE, "gpu1-rail1")}
    said = wrong[CABLE, "gpu1-rail0"]
    assert "neighbour is leaf-r1 swp1, planned for rail 1, expected leaf-r0 swp1" in said
    rails = [rail(index, f"leaf-r{1 - index}", "swp7") for index in (0, 1)]
    said = failed(of_rails(fabric.judged(fabric_rails=rails)))[CABLE, "gpu1-rail1"]
    assert "neighbour is leaf-r0 swp1, expected leaf-r0 swp7" in said


def test_lldpad_on_the_node_tells_the_same(fabric):
    fabric.node.enter("mkdir", "-p", "/run/lldpad")
    fabric.node.enter("lldpad", "-d", "-f", "/run/lldpad/lldpad.conf")
    for rail in ("rail0", "rail1"):
        # Once: each time it forgets its neighbours.
        receive = f"until lldptool -L -i {rail} adminStatus=rx; do sleep 0.2; done"
        fabric.node.enter("sh", "-c", receive)
    end = time.monotonic() + LIMIT_S
    for rail in ("rail0", "rail1"):
        while "PFC enabled: 3" not in fabric.node.enter("lldptool", "-t", "-n", "-i", rail):
            assert time.monotonic() < end, f"lldpad does not know the neighbour of {rail}"
            time.sleep(0.5)
    assert failed(of_rails(fabric.judged())) == {}


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ("", "it is cut: it has no end"),
        ("ff" * 1486, "it is cut"),
        ("0207040011223344550403056531060200780000", None),
    ],
)
def test_hostile_frame_is_unknown_and_no_traceback(fabric, sent, why):
    fabric.stop_daemon(fabric.switches[0])
    command = [sys.executable, "-c", SEND, "8", "swp1", framed(bytes.fromhex(sent))]
    words = ["nsenter", "-t", str(fabric.switches[0].pid), "-a", "--", *command]
    with subprocess.Popen(words) as sender:
        state, said = fabric.judged()[CABLE, "gpu1-rail0"]
        sender.kill()
    if why is None:
        assert (state, "neighbour is 00:11:22:33:44:55 e1" in said) == ("failed", True)
    else:
        assert state == "error"
        assert f"rail0: an LLDP announcement is odd: {why}" in said


LATE = cases(__file__, "late")


def test_frame_of_another_port_is_not_heard_before_a_socket_is_bound():
    """On a busy node, time passes between making a socket and binding it."""
    link = "ip link add rail{0} type veth peer name far{0}\n"
    up = "ip link set rail{0} up\nip link set far{0} up\n"
    links = "".join((link + up).format(n) for n in (0, 1))
    script = f'set -e\n{links}exec "$0" -c "$1"'
    late = LATE.format(frame=frame("leaf-r1", "swp2"))
    words = ["unshare", "--net", "sh", "-c", script, sys.executable, late]
    assert run(*words).strip() == "nothing"


def test_validate_names_the_switch_and_says_what_is_not_verified(fabric):
    fabric.start_daemon()
    fabric.wait_for("leaf-r0")
    fabric.wait_for("leaf-r1")
    fabric.stop_daemon(fabric.switches[1])
    fabric.swap()
    fabric.wait_for("rail1")
    done = execute(
        [Path(sys.executable).with_name("rdmaprov"), "validate", fabric.site(), *FILES],
        cwd=fabric.directory,
        timeout=LIMIT_S,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gpu1 rail1: running: neighbour is leaf-r0 swp1" in done.stdout
