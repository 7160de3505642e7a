"""What discover shows of the switches that rails are cabled to: what a daemon knows, no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.helpers.discovered import FACTS, RAIL
from tests.validate.switches import announced

from rdmaprov.discover import collector, variables
from rdmaprov.discover.reach import parse_facts

BOND = {**RAIL, "netdev": "bond0", "is_bond": True, "ports": ["ens1", "ens2"]}


def facts(rail=RAIL, **lldp):
    """Return what a node says, as it comes over the wire."""
    said = {**FACTS, "rails": [rail], "lldp": {**FACTS["lldp"], **lldp}}
    return parse_facts(json.dumps(said))


def lldpd(ends):
    return announced(ends).encode().hex()


def test_neighbour_of_each_port_is_shown_and_nothing_of_it_is_written():
    read = facts(lldpd=lldpd({"ens1": ("leaf-r0", "swp7"), "eno1": ("mgmt", "1")}))
    assert list(variables.remarks(read)) == [
        "mlx5_0 is cabled to leaf-r0 swp7 (read: lldpctl ens1)"
    ]
    assert variables.host_variables(read) == variables.host_variables(facts())


def test_bond_has_a_neighbour_at_each_port():
    read = facts(BOND, lldpd=lldpd({"ens1": ("leaf-a", "1"), "ens2": ("leaf-b", "1")}))
    assert list(variables.remarks(read)) == [
        "mlx5_0 is cabled to leaf-a 1 (read: lldpctl ens1)",
        "mlx5_0 is cabled to leaf-b 1 (read: lldpctl ens2)",
    ]


def test_lldpad_tells_it_too():
    unit = "0207040011223344550403056531060200780000"
    line = f"R00C3010000000004ens10000007f{unit}"
    read = facts(lldpad=f"{line}\n".encode().hex())
    assert list(variables.remarks(read)) == [
        "mlx5_0 is cabled to 00:11:22:33:44:55 e1 (read: lldptool -t -n -i ens1)"
    ]


@pytest.mark.parametrize(
    ("lldp", "why"),
    [
        ({"error": "lldpctl: permission denied"}, "lldpctl: permission denied"),
        ({"lldpd": b"[".hex()}, "lldpctl -f json0: its answer is not JSON"),
        ({"lldpd": b"\xff\xfe".hex()}, "lldpctl -f json0: its answer is not JSON"),
    ],
)
def test_what_cannot_be_read_is_unknown(lldp, why):
    (line,) = variables.remarks(facts(**lldp))
    assert line == f"the neighbours of its rails are unknown: {why}"


def test_two_switches_on_one_port_are_unknown():
    both = [json.loads(announced({"ens1": (name, "1")})) for name in ("leaf-a", "leaf-b")]
    both[0]["lldp"][0]["interface"] += both[1]["lldp"][0]["interface"]
    both[0]["lldp"][0]["interface"][1]["chassis"][0]["id"][0]["value"] = "8a:78:6e:77:a8:05"
    (line,) = variables.remarks(facts(lldpd=json.dumps(both[0]).encode().hex()))
    assert line.startswith("the neighbour of mlx5_0 is unknown: ens1 has 2 neighbours: leaf-a 1, ")


def test_name_of_a_switch_is_printable():
    (line,) = variables.remarks(facts(lldpd=lldpd({"ens1": ("leaf\u202e\x1b[2J", "swp7")})))
    assert line.isprintable()


def program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Provide the directory in which the collector finds programs first."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program(tmp_path, "lldpctl", "echo 'unable to connect to socket' >&2; exit 1")
    program(tmp_path, "lldptool", "exit 1")
    return tmp_path


NONE = {"lldpd": "", "lldpad": "", "error": ""}


def test_collector_asks_lldpd(path):
    program(path, "lldpctl", '[ "$*" = "-f json0" ] && printf "[\\377]"')
    assert collector.lldp([RAIL]) == {**NONE, "lldpd": b"[\xff]".hex()}


def test_collector_asks_lldpad_of_each_port_where_lldpd_does_not_run(path):
    program(path, "lldptool", 'echo "$5"; [ "$5" != ens2 ]')
    assert collector.lldp([BOND]) == {**NONE, "lldpad": b"ens1\n".hex()}


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo one >&2; printf 'no\\033[2Jt you\\377' >&2; exit 1", "lldpctl: no[2Jt you?"),
        ("exit 1", "lldpctl: failed"),
        ("head -c 300000 /dev/zero", "lldpctl: failed"),
        ("exec sleep 60", "lldpctl: it does not end"),
    ],
)
def test_lldpctl_that_fails_is_told(path, monkeypatch, script, error):
    monkeypatch.setattr(collector, "LLDP_S", 0.3)
    program(path, "lldpctl", script)
    assert collector.lldp([RAIL]) == {**NONE, "error": error}
    parse_facts(json.dumps({**FACTS, "lldp": collector.lldp([RAIL])}))


@pytest.mark.usefixtures("path")
def test_node_without_a_daemon_tells_nothing():
    assert collector.lldp([RAIL]) == NONE
    assert list(variables.remarks(facts())) == []


def test_ports_are_those_below_a_bond(tmp_path):
    for below in ("bond0.7/lower_bond0", "bond0/lower_ens2", "bond0/lower_ens1", "ens1", "ens2"):
        (tmp_path / "sys/class/net" / below).mkdir(parents=True)
    assert collector.ports(str(tmp_path), "bond0.7") == ["ens1", "ens2"]
    assert collector.ports(str(tmp_path), "ens1") == ["ens1"]
    assert collector.ports(str(tmp_path), "") == []
