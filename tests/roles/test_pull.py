"""A change to the management path without a controller: default gateways confirm it."""

import json
from typing import Any

import pytest
from plugins.module_utils import pull
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import Plan, Refused
from tests.roles.fake import FakeMachine

GATEWAY = "10.0.0.1"
TIMER = "rdmaprov-revert-1-a"
CHANGE = {"layer": "running", "device": "ens1", "setting": "MTU", "seen": "1500", "wanted": "9000"}


class Change:
    """A role's change to the management path, in place of its module, and who confirmed it."""

    def __init__(
        self, node: FakeMachine, routes: list[dict[str, Any]], answers: list[bool]
    ) -> None:
        self.left, self.made, self.confirmed = list(answers), 0, list[str]()
        self.guarded = ["ens1"]
        node.programs["ip -j -4 route show default"] = json.dumps(routes)
        node.programs["ip -j -6 route show default"] = ""
        node.programs["ping "] = self.ping

    def ping(self, argv: list[str]) -> str:
        assert argv[-1] == GATEWAY
        if not self.left.pop(0):
            raise CommandFailed(argv, 1, "")
        return ""

    def converge(self, *_args: object, **_options: object) -> dict[str, Any]:
        self.made += 1
        first = {"changes": [CHANGE], "confirm": TIMER}
        return first if self.made == 1 else {"changes": []}

    def plan(self, _role: str, machine: Machine, _arguments: object) -> Plan:
        plan = Plan(machine)
        plan.guarded = self.guarded
        return plan


def carry_out(monkeypatch: pytest.MonkeyPatch, node: FakeMachine, change: Change) -> list[str]:
    bundle = {"node": "n1", "number": 1, "site": "", "bundle": "", "standing": []}
    monkeypatch.setattr(pull, "converge", change.converge)
    monkeypatch.setattr(pull, "_plan", change.plan)
    monkeypatch.setattr(pull, "confirm", lambda _machine, timer: change.confirmed.append(timer))
    monkeypatch.setattr(pull.Pull, "_new_machine", lambda _self: node)
    made = pull.Pull(
        {**bundle, "arguments": {"mtu": {"guard_revert_s": 60}}},
        {},
        reboots=False,
        force=False,
        save=lambda _state: None,
    )
    return made._carry_out("mtu")


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


@pytest.mark.parametrize(("routes", "why"), [([], "is known"), ([ROUTE], "answers a ping")])
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
