"""A change to the management path without a controller: default gateways confirm it."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils import pull
from plugins.module_utils.machine import Machine, NodeError
from plugins.module_utils.plan import Change as Wanted
from plugins.module_utils.plan import NotYet, Plan, Refused
from tests.cli.namespaced import needs_namespace
from tests.roles.fake import FakeMachine
from tests.tables import cases
from tests.unit.helpers.shell import execute

GATEWAY = "10.0.0.1"
TIMER = "rdmaprov-revert-1-a"
CHANGE = {"layer": "running", "device": "ens1", "setting": "MTU", "seen": "1500", "wanted": "9000"}


class Change:
    """A role's change to the management path, in place of its module, and who confirmed it."""

    def __init__(
        self, node: FakeMachine, routes: list[dict[str, Any]], answers: list[bool]
    ) -> None:
        self.left, self.made, self.confirmed = list(answers), 0, list[str]()
        self.guarded, self.own = ["ens1"], "10.0.0.9"
        node.programs["ip -j -4 route show default"] = json.dumps(routes)
        node.programs["ip -j -6 route show default"] = ""
        node.programs["ip -j -4 route get 10.0.0.1 oif ens1"] = self.route
        node.programs["ip -j -4 neigh flush to 10.0.0.1 dev ens1"] = ""
        node.programs["ip -j -4 neigh show to 10.0.0.1 dev ens1"] = self.neighbor

    def route(self, _argv: list[str]) -> str:
        return json.dumps([{"dev": "ens1", "prefsrc": "10.0.0.9" if self.made else self.own}])

    def neighbor(self, _argv: list[str]) -> str:
        state = "REACHABLE" if self.left.pop(0) else "FAILED"
        return json.dumps([{"dst": GATEWAY, "state": [state]}])

    def converge(self, *_args: object, **_options: object) -> dict[str, Any]:
        self.made += 1
        first = {"changes": [CHANGE], "confirm": TIMER}
        return first if self.made == 1 else {"changes": []}

    def plan(self, _role: str, machine: Machine, _arguments: object) -> Plan:
        plan = Plan(machine)
        plan.guarded = self.guarded
        return plan


BUNDLE = {"node": "n1", "number": 1, "site": "", "bundle": "", "standing": []}


def carry_out(monkeypatch: pytest.MonkeyPatch, node: FakeMachine, change: Change) -> list[str]:
    monkeypatch.setattr(pull, "converge", change.converge)
    monkeypatch.setattr(pull, "_plan", change.plan)
    monkeypatch.setattr(pull, "_LOOKS", 1)
    monkeypatch.setattr(pull, "_PAUSE_S", 0)
    monkeypatch.setattr(pull, "_knock", lambda *_to: None)
    monkeypatch.setattr(pull, "confirm", lambda _machine, timer: change.confirmed.append(timer))
    monkeypatch.setattr(pull.Pull, "_new_machine", lambda _self: node)
    made = pull.Pull(
        {**BUNDLE, "arguments": {"mtu": {"guard_revert_s": 60}}},
        {},
        reboots=False,
        force=False,
        save=lambda _state: None,
    )
    return made._carry_out("mtu")


@pytest.mark.parametrize(
    ("since_boot", "looks", "verdict"), [(20, 3, "proven"), (290, 2, "failed"), (900, 1, "failed")]
)
def test_device_that_comes_late_is_waited_for_while_the_node_boots(
    machine, monkeypatch, since_boot, looks, verdict
):
    """The third look finds it; each takes 20 s."""
    clock, seen = [since_boot], list[int]()
    machine.programs["systemctl --no-legend list-jobs"] = ""

    def plan(_role: str, node: Machine, _arguments: object) -> Plan:
        seen.append(clock[0])
        if len(seen) < 3:
            raise NotYet("rail 0: there is no network device ens1")
        return Plan(node)

    monkeypatch.setattr(pull, "_plan", plan)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: clock[0])
    monkeypatch.setattr(time, "sleep", lambda _s: clock.__setitem__(0, clock[0] + 20))
    monkeypatch.setattr(pull.Pull, "_new_machine", lambda _self: machine)
    bundle = {**BUNDLE, "arguments": {"mtu": {}}}
    made = pull.Pull(bundle, {}, reboots=False, force=False, save=lambda _state: None)
    made._converge()
    assert (len(seen), made.state["verdict"]) == (looks, verdict), made.state


@pytest.mark.parametrize(
    ("jobs", "looks"),
    [
        (" 9 rdmaprov-roce-qos@ens1.service start running\n", 2),
        (" 9 rdmaprov-pcie.service start waiting\n", 2),
        (" 7 rdmaprov-node.service start running\n 8 slurmd.service start waiting\n", 1),
        ("No jobs running.\n", 1),
    ],
)
def test_what_a_unit_of_the_boot_still_sets_is_not_set_twice(machine, monkeypatch, jobs, looks):
    """At the second look it is set; until then, the role would change a link."""
    seen, made = list[int](), list[str]()

    def plan(_role: str, node: Machine, _arguments: object) -> Plan:
        seen.append(1)
        own = Plan(node)
        if len(seen) == 1:
            own.add(Wanted(**CHANGE), lambda: None)
        return own

    def carry_out(_self: object, role: str) -> list[str]:
        made.append(role)
        return []

    machine.programs["systemctl --no-legend list-jobs"] = jobs
    monkeypatch.setattr(pull, "_plan", plan)
    monkeypatch.setattr(pull.Pull, "_carry_out", carry_out)
    monkeypatch.setattr(time, "clock_gettime", lambda _clock: 60)
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    monkeypatch.setattr(pull.Pull, "_new_machine", lambda _self: machine)
    bundle = {**BUNDLE, "arguments": {"roce_qos": {}}}
    pull.Pull(bundle, {}, reboots=False, force=False, save=lambda _state: None)._converge()
    assert (len(seen) - len(made), made) == (looks, [] if looks == 2 else ["roce_qos"])


ROUTE = {"dst": "default", "gateway": GATEWAY, "dev": "ens1"}
MULTIPATH = {"dst": "default", "nexthops": [{"gateway": GATEWAY, "dev": "ens1"}]}


@pytest.mark.parametrize("route", [ROUTE, MULTIPATH])
def test_gateway_that_answers_again_confirms(machine, monkeypatch, route):
    change = Change(machine, [route], [True, True])
    assert carry_out(monkeypatch, machine, change) == ["ens1: MTU (running)"]
    assert (change.confirmed, change.made) == ([TIMER], 2)


def test_gateway_that_does_not_answer_any_more_confirms_nothing(machine, monkeypatch):
    change = Change(machine, [ROUTE], [True, False])
    with pytest.raises(NodeError, match=r"10\.0\.0\.1 does not answer any more; .* is reverted"):
        carry_out(monkeypatch, machine, change)
    assert (change.confirmed, change.made) == ([], 1)


def test_address_that_is_another_one_confirms_nothing(machine, monkeypatch):
    change = Change(machine, [ROUTE], [True, True])
    change.own = "10.0.0.2"
    with pytest.raises(NodeError, match="does not answer any more"):
        carry_out(monkeypatch, machine, change)
    assert change.confirmed == []


@pytest.mark.parametrize(("routes", "why"), [([], "is known"), ([ROUTE], "answers")])
def test_nothing_is_changed_where_no_gateway_could_confirm(machine, monkeypatch, routes, why):
    change = Change(machine, routes, [False])
    with pytest.raises(Refused, match=f"no default gateway {why}"):
        carry_out(monkeypatch, machine, change)
    assert (change.confirmed, change.made) == ([], 0)


def test_silent_gateway_matters_to_the_management_path_alone(machine, monkeypatch):
    change = Change(machine, [ROUTE], [False])
    change.guarded, change.made = [], 1
    assert carry_out(monkeypatch, machine, change) == []
    assert change.made == 2


NEIGHBOR = cases(__file__, "neighbor")


@needs_namespace
def test_gateway_is_asked_through_the_kernel():
    text = NEIGHBOR.format(root=Path(__file__).parents[2], python=sys.executable)
    done = execute(["unshare", "--net", "sh", "-c", text], timeout=120)
    assert done.stdout == "[('-4', '198.18.9.1', 'e0', '198.18.9.2')] True\n[True] []\n", (
        done.stderr
    )
