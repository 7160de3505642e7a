"""Which RDMA devices of real kinds of node become rails, and what is shown of their switches."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases
from tests.unit.helpers import sites
from tests.unit.helpers.discovered import FACTS, RAIL
from tests.validate.switches import announced

from rdmaprov.discover import collector, variables
from rdmaprov.discover.rails import choose_rails
from rdmaprov.discover.reach import parse_facts
from rdmaprov.discover.variables import remarks
from rdmaprov.inventory import load_site


def device(name: str, pci: str, path: list[str] | None = None, **changed: Any) -> dict[str, Any]:
    found = {"device": name, "netdev": f"n-{name}", "pci": pci, "path": [*(path or []), pci]}
    return {**RAIL, **found, **changed}


def gpu(*path: str) -> dict[str, Any]:
    return {"pci": path[-1], "path": list(path), "numa_node": 0}


def chosen(devices: list[dict[str, Any]], gpus: list[dict[str, Any]] | None = None):
    rails, out = choose_rails({**FACTS, "rails": devices, "gpus": gpus or []})
    return [each["device"] for each in rails], {each.name: each.why for each in out}


# As nvidia-smi topo -m of a DGX H100 has it: each compute NIC shares a switch with a GPU; the two
# for storage and the management port are elsewhere.
SWITCHES = [f"00{number:02x}:00:01.0" for number in (0x16, 0x3A, 0x4E, 0x96)]
COMPUTE = [
    device(f"mlx5_{n}", f"{s[:5]}10:00.0", [s, f"{s[:5]}02:00.0"])
    for n, s in zip((0, 3, 4, 10), SWITCHES, strict=True)
]
GPUS = [gpu(s, f"{s[:5]}02:00.0", f"{s[:5]}12:00.0") for s in SWITCHES]
STORAGE = [
    device("mlx5_1", "0000:29:00.0", ["0000:26:01.0"]),
    device("mlx5_7", "0000:aa:00.0", ["0000:a7:01.0"]),
]


def test_storage_nics_away_from_the_gpus_are_no_rails():
    rails, out = chosen([*STORAGE, *COMPUTE], GPUS)
    assert rails == ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_10"]
    assert set(out) == {"mlx5_1", "mlx5_7"}
    assert out["mlx5_1"] == "it shares no PCIe switch with a GPU"


@pytest.mark.parametrize(
    ("devices", "rails"),
    [
        (
            [device(f"mlx5_{n}", f"0000:{n}0:00.0", [f"0000:{n}0:01.0"]) for n in (2, 1)],
            ["mlx5_1", "mlx5_2"],
        ),
        ([device(name, "") for name in ("rxe10", "rxe2")], ["rxe2", "rxe10"]),
        (
            [device("mlx5_0", "0000:10:00.0"), device("mlx5_1", "0000:11:00.0", state="")],
            ["mlx5_0", "mlx5_1"],
        ),
        (
            [device(f"mlx5_{n}", f"0000:1{n}:00.0", state="1: DOWN", gbps=0) for n in (0, 1)],
            ["mlx5_0", "mlx5_1"],
        ),
        (
            [
                device("mlx5_10", "0000:1a:00.0"),
                device("mlx5_2", "0000:18:00.1"),
                device("mlx5_1", "10000:01:00.0"),
                device("mlx5_0", "0000:18:00.0"),
            ],
            ["mlx5_0", "mlx5_2", "mlx5_10", "mlx5_1"],
        ),
    ],
    ids=["no switch", "no PCI", "unknown state", "no link", "order of PCI addresses"],
)
def test_devices_that_are_all_rails_are_in_order(devices, rails):
    for gpus in ([], [gpu("0000:e0:01.0", "0000:e1:00.0")]):
        assert chosen(devices, gpus) == (rails, {})


@pytest.mark.parametrize(
    ("changed", "why"), cases(__file__, "device_that_is_no_rail_is_named_with_the_reason")
)
def test_device_that_is_no_rail_is_named_with_the_reason(changed: dict[str, Any], why: str):
    others = [device("mlx5_0", "0000:18:00.0"), device("mlx5_1", "0000:19:00.0")]
    rails, out = chosen([*others, device("mlx5_9", "0000:01:00.0", **changed)])
    assert (rails, out) == (["mlx5_0", "mlx5_1"], {"mlx5_9": why})


DOWN: dict[str, Any] = {"state": "1: DOWN", "gbps": 10.0}  # what a disabled port shows as its rate


def test_dead_rail_stays_one():
    devices = [device(f"mlx5_{n}", f"0000:1{n}:00.0") for n in range(3)]
    devices.append(device("mlx5_3", "0000:13:00.0", **DOWN))
    assert chosen(devices) == (["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"], {})


@pytest.mark.parametrize("card", ["", "a088:c203:0000:0001"])
def test_second_port_without_a_cable_is_no_rail(card: str):
    devices = [
        device(f"mlx5_{n}", f"0000:1{n // 2}:00.{n % 2}", **(DOWN if n % 2 else {}))
        for n in range(6)
    ]
    for each in devices if card else ():
        each.update(card=f"{card}{each['pci'][:7]}", pci=f"0000:{each['device'][-1]}0:00.0")
    assert chosen(devices)[0] == ["mlx5_0", "mlx5_2", "mlx5_4"]


def test_new_rails_count_more_than_a_few_other_ports_with_a_link():
    rails = [device(f"mlx5_{n}", f"0000:1{n}:00.0", **DOWN) for n in range(3)]
    other = device("mlx5_9", "0000:90:00.0", model="15b3:101d")
    wanted = "it is Ethernet of 400 Gb/s, most others are Ethernet without a link"
    assert chosen([*rails, other]) == (["mlx5_0", "mlx5_1", "mlx5_2"], {"mlx5_9": wanted})


def test_only_card_without_a_link_away_from_all_gpus_is_no_rail():
    spare = device("mlx5_0", "0000:c6:00.0", **DOWN)
    assert chosen([spare], [gpu("0000:c1:00.0", "0000:c3:00.0")])[0] == []
    assert chosen([spare])[0] == ["mlx5_0"]


@pytest.mark.parametrize("named", ["pci: '0000:01:00.0'", "rdma: mlx5_9", "netdev: n-mlx5_9"])
def test_rail_of_the_site_stays_one(tmp_path, named):
    rails = f"fabric_rails:\n- {{{named}, address: 198.18.0.1/24}}\n"
    site = sites.write(tmp_path / "site", {**sites.GOOD, "host_vars/n1.yml": rails})
    node = load_site(site, "n1").nodes[0]
    down = device("mlx5_9", "0000:01:00.0", state="1: DOWN")
    facts = {**FACTS, "rails": [device("mlx5_0", "0000:18:00.0"), down], "gpus": []}
    assert [each["device"] for each in choose_rails(facts, node)[0]] == ["mlx5_9", "mlx5_0"]


@pytest.mark.parametrize(("states", "said"), cases(__file__, "what_is_missing_on_a_rail_is_said"))
def test_what_is_missing_on_a_rail_is_said(states, said):
    rails = [device("mlx5_2", "0000:30:00.0")] * (states[0] != states[1])
    rails += [
        device(f"mlx5_{n}", f"0000:{n + 1}0:00.0", state=state) for n, state in enumerate(states)
    ]
    assert list(remarks({**FACTS, "rails": rails, "gpus": []})) == said


BOND = {**RAIL, "netdev": "bond0", "is_bond": True, "ports": ["ens1", "ens2"]}


def facts(rail=RAIL, **lldp):
    """Return what a node says, as it comes over the wire."""
    return parse_facts(json.dumps({**FACTS, "rails": [rail], "lldp": {**FACTS["lldp"], **lldp}}))


def lldpd(ends):
    return announced(ends).encode().hex()


LLDPAD = "R00C3010000000004ens10000007f0207040011223344550403056531060200780000\n"


@pytest.mark.parametrize(
    ("rail", "lldp", "said"),
    [
        (
            RAIL,
            {"lldpd": lldpd({"ens1": ("leaf-r0", "swp7"), "eno1": ("mgmt", "1")})},
            ["leaf-r0 swp7 (read: lldpctl ens1)"],
        ),
        (
            BOND,
            {"lldpd": lldpd({"ens1": ("leaf-a", "1"), "ens2": ("leaf-b", "1")})},
            ["leaf-a 1 (read: lldpctl ens1)", "leaf-b 1 (read: lldpctl ens2)"],
        ),
        (
            RAIL,
            {"lldpad": LLDPAD.encode().hex()},
            ["00:11:22:33:44:55 e1 (read: lldptool -t -n -i ens1)"],
        ),
    ],
)
def test_neighbour_of_each_port_is_shown_and_nothing_of_it_is_written(rail, lldp, said):
    read = facts(rail, **lldp)
    assert list(variables.remarks(read)) == [f"mlx5_0 is cabled to {each}" for each in said]
    assert variables.host_variables(read) == variables.host_variables(facts(rail))


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


def test_lldptool_that_does_not_end_is_not_asked_of_the_next_port(path, monkeypatch):
    monkeypatch.setattr(collector, "LLDP_S", 0.3)
    program(path, "lldptool", f"echo >> {path}/asked; exec sleep 9")
    assert collector.lldp([BOND]) == NONE
    assert (path / "asked").read_text() == "\n"


@pytest.mark.parametrize(("script", "error"), cases(__file__, "lldpctl_that_fails_is_told"))
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
