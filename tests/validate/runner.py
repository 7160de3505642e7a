"""Runs the tests of validate/ on made-up nodes, without pytest between."""

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell
from rdmaprov.inventory import Fleet, Node

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "validate"


@dataclass(frozen=True)
class Outcome:
    """How a test ended for a target.

    Args:
        test: FILE::FUNCTION.
        target: the node, or node and rail.
        state: passed, failed, error, skipped.
        said: its message.
        asked: commands that it asked of gpu1.
    """

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


def modules() -> dict[str, ModuleType]:
    """Return the suite's modules by file name."""
    found = {}
    for path in sorted(SUITE.glob("test_*.py")):
        if path.name == "test_acceptance.py":
            continue  # judged by tests of its own
        found[path.name] = importlib.import_module(f"validate.{path.stem}")
    return found


def functions(of: Mapping[str, ModuleType]) -> dict[str, Callable[..., None]]:
    """Return the suite's tests by FILE::FUNCTION."""
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
    """Return how each test ended for each of its targets.

    Args:
        only: the node whose tests are run, beside those of the fleet; None for all.
        names: the tests to run; None for all.
    """
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
