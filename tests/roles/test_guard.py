"""What the way to the node uses is known, and a change to it takes itself back."""

import contextlib
import json
import os
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from plugins.action.role import ActionModule
from plugins.module_utils import guard
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import RUNNING, Change, Plan, Refused
from plugins.module_utils.rails import Rail
from tests.roles.fake import FakeMachine

NO_DEFAULT = {"ip -j -4 route show default": "[]", "ip -j -6 route show default": ""}


def route(dev: str, **more: str) -> str:
    return json.dumps([{"dst": "default", "dev": dev, **more}])


def rail(netdev: str) -> Rail:
    return Rail(0, netdev, "", "", "", "")


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    machine.programs = dict(NO_DEFAULT)
    for netdev in ("eno1", "ens1", "bond0"):
        machine.nic(netdev)
    return machine


def test_default_gateway_of_either_family_and_what_its_bond_stands_on_are_on_the_way(node):
    assert guard.ways(node) == {}
    node.programs["ip -j -6 route show default"] = route("ens1")
    assert guard.ways(node) == {"ens1": ["the default gateway"]}
    node.programs |= NO_DEFAULT | {"ip -j -4 route show default": route("bond0")}
    node.put("/sys/class/net/bond0/lower_ens1")
    assert set(guard.ways(node)) == {"bond0", "ens1"}


def test_connection_is_found_though_sudo_hides_it(node: FakeMachine):
    me = os.getpid()
    node.put(f"/proc/{me}/environ", "SUDO_USER=ops\0")
    node.put(f"/proc/{me}/stat", f"{me} (python (x)) S 41 1 1")
    node.put("/proc/41/environ", "HOME=/home/ops\0SSH_CONNECTION=10.0.0.9 50000 10.0.0.2 22\0")
    node.programs["ip -j route get 10.0.0.9"] = route("eno1")
    node.programs["ip -j route get 10.0.0.2"] = route("lo", type="local")
    node.programs["ip -j address show"] = json.dumps(
        [{"ifname": "ens1", "addr_info": [{"local": "10.0.0.2"}]}]
    )
    assert guard.ways(node) == {
        "eno1": ["the connection to 10.0.0.9"],
        "ens1": ["the connection to 10.0.0.2"],
    }


@pytest.mark.parametrize(
    "mount",
    [
        "10.1.0.5:/home /home nfs4 rw,vers=4.2,addr=10.1.0.5 0 0",
        "//10.1.0.5/share /home cifs rw,addr=10.1.0.5 0 0",
        "10.1.0.5@tcp:/scratch /home lustre rw 0 0",
    ],
)
def test_network_filesystem_is_on_the_way(node: FakeMachine, mount: str):
    node.put("/proc/mounts", f"/dev/sda1 / ext4 rw 0 0\n{mount}\n")
    node.programs["ip -j route get 10.1.0.5"] = route("ens1")
    assert guard.ways(node) == {"ens1": ["the filesystem on /home"]}


def test_routes_that_cannot_be_read_stop_everything(node: FakeMachine):
    node.programs["ip -j -4 route show default"] = CommandFailed(["ip"], 1, "no netlink")
    with pytest.raises(NodeError, match="no netlink"):
        guard.ways(node)


def test_device_on_the_way_needs_the_sites_word(node: FakeMachine):
    node.programs["ip -j -4 route show default"] = route("ens1")
    given: dict[str, list[str]] = {"guard_allowed_netdevs": []}
    with pytest.raises(Refused, match=r"write fabric_guard_allowed_netdevs: \[ens1\]"):
        guard.devices_to_guard(node, [rail("eno1"), rail("ens1")], given)
    given = {"guard_allowed_netdevs": ["ens1"]}
    assert guard.devices_to_guard(node, [rail("eno1"), rail("ens1")], given) == ["ens1"]


class OnTheWay:
    """A role whose only setting is a file, changed under the guard, and written for the boot."""

    def plan(self, machine: Machine, arguments: dict[str, object]) -> Plan:  # noqa: ARG002
        plan = Plan(machine)
        if machine.read("/running") != "new":
            plan.add(
                Change(RUNNING, "ens1", "MTU", "old", "new"),
                lambda: machine.set("/running", "new"),
                [["cp", machine.path("/old"), machine.path("/running")]],
            )
        plan.file("/configured", "new")
        plan.guarded = ["ens1"]
        return plan


def armed(node: FakeMachine) -> str:
    """Return the timer of a change that was made."""
    node.put("/running", "old")
    node.put("/old", "old")
    node.programs |= {"systemd-run": "", "sh -c": "", "systemctl stop": ""}
    return str(converge(node, OnTheWay(), {"guard_revert_s": 30}, check=False)["confirm"])


def test_change_on_the_way_is_running_first_and_configured_once_confirmed(node: FakeMachine):
    timer = armed(node)
    assert any(f"--unit={timer} --on-active=30" in line for line in node.ran)
    assert (node.read("/running"), node.read("/configured")) == ("new", None)

    assert "confirm" not in converge(node, OnTheWay(), {"guard_revert_s": 30}, check=False)
    assert node.read("/configured") == "new"


def test_no_timer_no_change(node: FakeMachine):
    node.put("/running", "old")
    node.programs |= {"systemd-run": CommandFailed(["systemd-run"], 1, "no bus"), "sh -c": ""}
    with pytest.raises(NodeError, match="no bus"):
        converge(node, OnTheWay(), {"guard_revert_s": 30}, check=False)
    assert node.read("/running") == "old"


def test_only_timers_of_changes_are_confirmed(node: FakeMachine):
    with pytest.raises(NodeError, match="not a timer"):
        guard.confirm(node, "ssh")
    assert node.ran == []


def revert(node: FakeMachine, timer: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/sh", node.path(f"{guard.STATE}/{timer}")])


def test_confirmed_change_is_not_reverted_when_the_timer_fires_all_the_same(node: FakeMachine):
    timer = armed(node)
    guard.confirm(node, timer)
    revert(node, timer).wait()
    assert node.read("/running") == "new"
    assert node.names(guard.STATE) == []


def test_change_that_is_reverted_cannot_be_confirmed(node: FakeMachine):
    timer = armed(node)
    revert(node, timer).wait()
    with pytest.raises(NodeError, match="reverted before it was confirmed"):
        guard.confirm(node, timer)
    assert node.read("/running") == "old"


def test_race_of_confirm_and_revert_has_one_winner(node: FakeMachine):
    """Whatever wins: what is told is what is so."""
    kept = 0
    for number in range(100):
        timer = armed(node)
        reverting = revert(node, timer)
        time.sleep(number / 100_000)
        try:
            guard.confirm(node, timer)
            told = "new"
        except NodeError:
            told = "old"
        reverting.wait()
        assert node.read("/running") == told
        kept += told == "new"
    assert kept > 0


def test_step_that_would_outlast_the_timer_is_not_begun(node, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    timer = guard.Guard("rdmaprov-revert-1", 130.0, 30)
    timer.require_time()
    now = 121.0
    with pytest.raises(NodeError, match=r"in 9 s, too soon for another step; write a larger"):
        timer.require_time()
    assert node.ran == []


ANSWER = {"changed": True, "changes": [], "diff": [], "reboot": [], "notes": [], "interrupts": []}


def controllers_part(monkeypatch: pytest.MonkeyPatch, *, is_cut: bool) -> tuple[Any, list[str]]:
    """Return the controller's part of a role whose change is on the way, and what it did."""
    role: Any = ActionModule.__new__(ActionModule)
    done: list[str] = []
    answers = iter([{**ANSWER, "confirm": "rdmaprov-revert-1"}, {**ANSWER, "changed": False}])

    def ask(_task_vars: object) -> dict[str, Any]:
        done.append("role")
        return next(answers)

    def execute(module_name: str, module_args: dict[str, str], **_: object) -> dict[str, Any]:
        done.append(f"{module_name} {module_args['timer']}")
        if is_cut:
            raise AnsibleConnectionFailure("timed out")
        return {"changed": True}

    role._task = SimpleNamespace(check_mode=False, action="rdmaprov.node.mtu", args={})
    role._connection = SimpleNamespace(reset=lambda: done.append("new connection"))
    monkeypatch.setattr("ansible.plugins.action.ActionBase.run", lambda *_: {})
    # It limits its process, which in a play is a fork for the task alone.
    monkeypatch.setattr(f"{ActionModule.__module__}.limited_memory", contextlib.nullcontext)
    monkeypatch.setattr(role, "_ask", ask)
    monkeypatch.setattr(role, "_execute_module", execute)
    return role, done


def test_change_is_confirmed_over_a_new_connection(monkeypatch: pytest.MonkeyPatch):
    role, done = controllers_part(monkeypatch, is_cut=False)
    assert role.run(None, {})["changed"]
    assert done == ["role", "new connection", "rdmaprov.node.confirm rdmaprov-revert-1", "role"]


def test_change_that_cuts_the_way_is_not_confirmed_and_said(monkeypatch: pytest.MonkeyPatch):
    role, done = controllers_part(monkeypatch, is_cut=True)
    found = role.run(None, {})
    assert found["unreachable"]
    assert "was not confirmed, so the node reverts it by itself: timed out" in found["msg"]
    assert done.count("role") == 1
