"""Each fault is found by its tests and by no other; each test of the suite finds one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.validate.fake_node import FakeNode
from tests.validate.hardware import config_space
from tests.validate.runner import FakeHosts, described, functions, judge, table

from rdmaprov.inventory import Fleet, Node
from rdmaprov.lab import faults as lab_faults

TABLE = table("faults.yml")
MADE_HERE = [name for name, fault in TABLE.items() if "do" in fault]


@dataclass(frozen=True)
class Healthy:
    """A fleet, its nodes, and what each command gives on them."""

    fleet: Fleet
    nodes: dict[str, FakeNode]
    known: dict[str, Any]


def _healthy(suite, fleet, nodes) -> Healthy:
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    judge(suite, fleet, hosts)
    return Healthy(fleet, nodes, {name: host.backend.known for name, host in hosts.items()})


@pytest.fixture(scope="module")
def roce(suite, fleet, nodes):
    return _healthy(suite, fleet, nodes)


@pytest.fixture(scope="module")
def infiniband(suite, infiniband_fleet, infiniband_nodes):
    return _healthy(suite, infiniband_fleet, infiniband_nodes)


def test_every_test_finds_a_fault(suite):
    found = {test for fault in TABLE.values() for test in fault.get("red", {})}
    assert found == set(functions(suite))


def test_every_fault_of_the_lab_is_found():
    ours = {name for name, fault in TABLE.items() if fault.get("lab")}
    assert ours == set(lab_faults.catalogue())
    assert all(TABLE[name].get("red") or TABLE[name].get("by") for name in ours)


@pytest.mark.parametrize("name", MADE_HERE)
def test_fault(name, suite, request, tmp_path):
    fault = TABLE[name]
    before = request.getfixturevalue("infiniband" if fault.get("infiniband") else "roce")
    fleet, nodes, learnt = before.fleet, before.nodes, before.known
    altered = {**nodes, "gpu1": nodes["gpu1"].like(tmp_path / "gpu1")}
    if any("peer" in each for each in fault["do"]):
        altered["gpu2"] = nodes["gpu2"].like(tmp_path / "gpu2")
    node = fleet.nodes[0]
    for each in fault["do"]:
        node = alter(altered, node, each)
    others = fleet.nodes[1:]
    for each in fault["do"]:
        if each.get("everywhere"):
            others = tuple(_described(other, each["site"]) for other in others)
    other = replace(fleet, nodes=(node, *others))
    outcomes = judge(suite, other, hosts_of(altered, learnt), only=node)

    said: dict[str, list[str]] = {"failed": [], "error": []}
    for outcome in outcomes:
        if outcome.state in said:
            said[outcome.state].append(f"{outcome.test} {outcome.said}")
    red, unknown = fault["red"], fault.get("unknown", {})
    assert {each.split()[0] for each in said["failed"]} == set(red), said["failed"]
    if unknown != "every":
        assert {each.split()[0] for each in said["error"]} == set(unknown), said["error"]
        red = {**red, **unknown}
    for test, text in red.items():
        lines = [each for each in said["failed"] + said["error"] if each.startswith(test + " ")]
        assert any(text in each for each in lines), lines


def test_page_of_symptoms_has_what_a_port_that_is_down_gives():
    said = TABLE["rdma-link-down"]["red"]["test_links.py::test_physical_link_is_up"]
    assert f"\n{said} (" in (Path(__file__).parents[2] / "docs/symptoms.md").read_text()


ALARMS = table("false_alarms.yml")


def is_red_by(plain: dict[str, str], root: Path) -> bool:
    if "missing" in plain:
        return not (root / plain["missing"].lstrip("/")).exists()
    files = [path.read_text() for path in root.glob(plain["in"].lstrip("/"))]
    if "match" in plain:
        return any(re.search(plain["match"], text, re.MULTILINE) for text in files)
    return not any(re.search(plain["unlike"], text) for text in files)


@pytest.mark.parametrize("name", [each for each in ALARMS if "by" not in ALARMS[each]])
def test_false_alarm_and_the_fault_next_door(name, suite, request, tmp_path):
    alarm = ALARMS[name]
    before = request.getfixturevalue("roce")
    for which in ("good", "bad"):
        gpu1 = before.nodes["gpu1"].like(tmp_path / which)
        altered, node = {**before.nodes, "gpu1": gpu1}, before.fleet.nodes[0]
        for each in [*alarm.get("both", ()), *alarm[which]]:
            node = alter(altered, node, each)
        fleet = replace(before.fleet, nodes=(node, *before.fleet.nodes[1:]))
        names = frozenset({alarm["red"]}) if which == "bad" else None
        outcomes = judge(suite, fleet, hosts_of(altered, before.known), node, names)
        red = {each.test for each in outcomes if each.state == "failed"}
        unknown = {each.test for each in outcomes if each.state == "error"}
        assert is_red_by(alarm["plain"], gpu1.root), f"{which}: the plain rule is silent"
        if which == "good":
            assert (red, unknown) == (set(), set(alarm.get("unknown", ()))), red | unknown
        else:
            assert alarm["red"] in red


def hosts_of(altered: dict[str, FakeNode], learnt: dict[str, Any]) -> FakeHosts:
    hosts = FakeHosts()
    for name, node in altered.items():
        marks = {_mark(path) for path in node.touched} if node.is_copy else set()
        known = {
            text: result
            for text, result in learnt[name].items()
            if not any(mark in text for mark in marks)
        }
        hosts[name] = node.host(known)
    return hosts


def _mark(path: str) -> str:
    """Return what the text of each command has that reads a path: its directory, or a program."""
    parts = path.strip("/").split("/")
    if parts[:2] == [".answers", "units"]:
        return "systemctl"
    if parts[:2] == [".answers", "python"]:
        return "/bin/python"
    if parts[:2] == [".answers", "initramfs"]:
        return "unmkinitramfs"
    if parts[:2] == [".answers", "traffic"]:
        return "timeout" if parts[2].startswith("of-") else parts[2].partition(":")[0]
    if parts[0] == "proc" and parts[1].isdigit():
        return "/proc/[0-9]*/comm" if parts[-1] in ("comm", "cmdline") else "/proc/$"
    if parts[0] in (".answers", ".bin"):
        return parts[1]
    if parts[-1] == ".nccl.conf":
        return parts[-1]
    return "/" + "/".join(parts[:2])


def alter(altered: dict[str, FakeNode], node: Node, each: dict[str, Any]) -> Node:
    fake = altered["gpu1"]
    kind = next(iter(each))
    if kind == "site":
        return _described(node, each["site"])
    if kind == "put":
        fake.put(each["put"], each["text"])
        fake.executable(each["put"])
    elif kind == "peer":
        altered["gpu2"].put(each["peer"], each["text"])
    elif kind == "remove":
        fake.remove(each["remove"])
    elif kind == "replace":
        fake.replace(each["replace"], each["old"], each["new"])
    elif kind == "rename":
        fake.rename(each["rename"], each["to"])
    elif kind == "answer":
        fake.answer(each["answer"], each["text"])
    elif kind == "set":
        fake.answer(each["set"], json.dumps({**fake.shown(each["set"]), **each["to"]}))
    elif kind == "unit":
        fake.unit(each["unit"], **each["to"])
    elif kind == "config":
        registers = {key: value for key, value in each.items() if key != "config"}
        path = f"/sys/bus/pci/devices/{each['config']}/config"
        fake.put(path, config_space(**{"bridge": False, **registers}))
    else:
        raise AssertionError(f"nothing is known of {kind}")
    return node


def _described(node: Node, values: dict[str, Any]) -> Node:
    rails = values.get("fabric_rails")
    if rails == "ens7":
        return replace(node, rails=(replace(node.rails[0], netdev="ens7"), *node.rails[1:]))
    if isinstance(rails, dict):  # of rail 0
        return replace(node, rails=(replace(node.rails[0], **rails), *node.rails[1:]))
    if rails == "unplanned":
        bare = tuple(replace(rail, leaf="", switch_port="") for rail in node.rails)
        others = {key: value for key, value in values.items() if key != "fabric_rails"}
        return described(replace(node, rails=bare), **others)
    if rails == "exchanged":
        one, other = node.rails
        return replace(node, rails=(replace(one, gpus=other.gpus), replace(other, gpus=one.gpus)))
    return described(node, **values)
