"""Runs the tests of validate/ on made-up nodes, without pytest between."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from testinfra.host import Host
from tests.validate.fake_node import FakeNode

from rdmaprov.facts import CouldNotTell
from rdmaprov.inventory import Fleet, Node

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "validate"


def table(name: str) -> dict[str, Any]:
    text = Path(__file__).with_name(name).read_text()
    found: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return found


ABSENT: dict[str, str] = table("outcomes.yml")["absent"]
# By check, why it says nothing on the healthy RoCE node.
SKIPPED = table("outcomes.yml")["skipped"] | {
    test: f"fabric_kind: roce, which has no {what}" for test, what in ABSENT.items()
}


@dataclass(frozen=True)
class Outcome:
    """How a test, FILE::FUNCTION, ended for a node or a rail, and what it asked of gpu1."""

    test: str
    target: str
    state: str
    said: str
    asked: frozenset[str] = frozenset()


class FakeHosts(dict[str, Host]):
    """Hosts by name, with what rdmaprov's own have: commands on many nodes at the same time."""

    def __init__(self, *hosts: Mapping[str, Host]) -> None:
        super().__init__(*hosts)
        self.compared: list[tuple[str, str, str, str, str]] = []

    def run(self, commands: Mapping[str, str], time_limit_s: float | None = None) -> dict[str, Any]:  # noqa: ARG002
        def one(name: str) -> Any:
            try:
                return self[name].run(commands[name])
            except TimeoutError as error:
                return error

        with ThreadPoolExecutor(len(commands) or 1) as threads:
            return dict(zip(commands, threads.map(one, commands), strict=True))


def described(node: Node, **values: object) -> Node:
    return replace(node, values={**node.values, **values})


@dataclass(frozen=True)
class Judge:
    suite: Mapping[str, ModuleType]
    fleet: Fleet
    nodes: Mapping[str, FakeNode]
    changed: FakeNode

    @property
    def node(self) -> Node:
        return self.fleet.nodes[0]

    def hosts(self) -> FakeHosts:
        others = {name: _host(node) for name, node in self.nodes.items()}
        return FakeHosts({**others, "gpu1": self.changed.host()})

    def __call__(
        self,
        *names: str,
        node: Node | None = None,
        hosts: FakeHosts | None = None,
        **values: object,
    ) -> list[Outcome]:
        node = described(node or self.node, **values)
        fleet = replace(self.fleet, nodes=(node, *self.fleet.nodes[1:]))
        chosen = [
            test for test in functions(self.suite) if {test, test.partition("::")[0]} & {*names}
        ]
        only = frozenset(chosen) if names else None
        return judge(self.suite, fleet, hosts or self.hosts(), only=node, names=only)


@cache  # what a node that no test changes answers is asked once
def _host(node: FakeNode) -> Host:
    return node.host()


def hosts_of(nodes: Mapping[str, FakeNode]) -> FakeHosts:
    return FakeHosts({name: node.host() for name, node in nodes.items()})


def ends(outcomes: list[Outcome]) -> list[tuple[str, str]]:
    return [(each.state, each.said) for each in outcomes]


def by_test(outcomes: list[Outcome]) -> dict[str, tuple[str, str]]:
    return {each.test.partition("::")[2]: (each.state, each.said) for each in outcomes}


def wrong(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.test} {o.said}" for o in outcomes if o.state in ("failed", "error")]


def modules() -> dict[str, ModuleType]:
    found = {}
    for path in sorted(SUITE.glob("test_*.py")):
        if path.name == "test_acceptance.py":
            continue  # judged by tests of its own
        found[path.name] = importlib.import_module(f"validate.{path.stem}")
    return found


def functions(of: Mapping[str, ModuleType]) -> dict[str, Callable[..., None]]:
    return {
        f"{file}::{name}": function
        for file, module in of.items()
        for name, function in _tests(module)
    }


@cache  # a thousand made-up nodes are judged by the same ones
def _tests(module: ModuleType) -> tuple[tuple[str, Callable[..., None]], ...]:
    return tuple(each for each in vars(module).items() if each[0].startswith("test_"))


@cache
def _wants(function: Callable[..., None]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


def judge(
    of: Mapping[str, ModuleType],
    fleet: Fleet,
    hosts: FakeHosts,
    only: Node | None = None,
    names: frozenset[str] | None = None,
) -> list[Outcome]:
    """Return how each test ended for each of its targets; `only` one node's, and the fleet's."""
    found = []
    for test, function in functions(of).items():
        if names is not None and test not in names:
            continue
        wants = _wants(function)
        for target, values in _targets(wants, fleet, hosts, only):
            asked = hosts["gpu1"].backend.asked
            asked.clear()
            state, said = _run(of[test.partition("::")[0]], function, wants, values)
            found.append(Outcome(test, target, state, said, frozenset(asked)))
    return found


def _targets(
    wants: frozenset[str], fleet: Fleet, hosts: FakeHosts, only: Node | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    whole = {"fleet": fleet, "hosts": hosts}
    nodes = fleet.nodes if only is None else (only,)
    if not wants & {"host", "node", "rail"}:
        yield "fleet", whole
    elif "rail" not in wants:
        for node in nodes:
            yield node.name, {**whole, "host": hosts[node.name], "node": node}
    else:
        for node in nodes:
            for rail in node.rails:
                values = {**whole, "host": hosts[node.name], "node": node, "rail": rail}
                yield f"{node.name}-rail{rail.index}", values


def _run(
    module: ModuleType, function: Callable[..., None], wants: frozenset[str], values: dict[str, Any]
) -> tuple[str, str]:
    try:
        fleet, hosts = values["fleet"], values["hosts"]
        if wants & {"reached", "pinged", "marked"}:
            values["reached"] = module.reach_all(fleet, hosts)
        if "pinged" in wants:
            values["pinged"] = module.ping_all(values["reached"], hosts)
        if "marked" in wants:
            values["marked"] = module.marked_traffic(fleet, values["reached"], hosts)
        function(**{name: values[name] for name in wants})
    except AssertionError as error:
        return "failed", str(error)
    except pytest.skip.Exception as error:
        return "skipped", str(error)
    except CouldNotTell as error:
        return "error", str(error)
    except Exception as error:  # testinfra's own modules have other ones
        return "error", f"{type(error).__name__}: {error}"
    return "passed", ""
