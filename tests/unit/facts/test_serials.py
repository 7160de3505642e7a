"""What makers wrote on NICs, cables and modules: read as it is, judged, and followed in swaps."""

import re
from pathlib import Path

import pytest
from tests.tables import cases

from rdmaprov.dossier import findings, parts
from rdmaprov.dossier.kept import KeptRun
from rdmaprov.dossier.labels import judged
from rdmaprov.node import serials

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def text(name: str) -> str:
    return (FIXTURES / f"{name}.txt").read_text()


@pytest.mark.parametrize(("name", "expected"), cases(__file__, "modules").items())
def test_module_is_read(name, expected):
    assert serials.parse_module(text(name)) == expected


@pytest.mark.parametrize(("name", "expected"), cases(__file__, "cards").items())
def test_card_is_read_from_its_vpd(name, expected):
    product = re.findall("Product Name: (.*)", text(name))[0]
    fields = re.findall(r"\[(\w\w)\] [\w ]+: (.*)", text(name))
    inside = "".join(f"{key}{chr(len(value))}{value}" for key, value in fields)
    parts = ((0x82, product.encode()), (0x90, inside.encode()))
    data = b"".join(bytes([tag, len(d) % 256, len(d) // 256]) + d for tag, d in parts)
    assert list(serials.parse_vpd(data + b"x").values()) == expected


@pytest.mark.parametrize(("data", "serial"), cases(__file__, "vpd"))
def test_odd_vpd_has_no_half_of_a_serial_number(data, serial):
    assert serials.parse_vpd(bytes.fromhex(data))["serial"] == serial


@pytest.mark.parametrize(("written", "value", "why"), cases(__file__, "judged"))
def test_filler_is_no_serial_number(written, value, why):
    found, reason = judged(written)
    assert found == value
    assert why in reason
    assert bool(found) != bool(reason)


@pytest.fixture
def port(tmp_path, monkeypatch):
    """Return a root with a port, and a directory of tools beside it."""
    (tmp_path / "sys/devices/pci0000:17/0000:18:00.0").mkdir(parents=True)
    netdev = tmp_path / "sys/class/net/ens1"
    netdev.mkdir(parents=True)
    (netdev / "device").symlink_to("../../../devices/pci0000:17/0000:18:00.0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(serials, "LIMIT_S", 0.3)
    return netdev


def read(root):
    (found,) = serials.read_modules(*serials.ask_modules([{"netdev": "ens1", "rdma": ""}], root))[0]
    return found


@pytest.mark.usefixtures("port")
@pytest.mark.parametrize(("does", "why"), cases(__file__, "unread"))
def test_port_that_is_not_read_says_why(tmp_path, does, why):
    if does:
        (tmp_path / "ethtool").write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "ethtool").chmod(0o700)
    found = read(tmp_path)
    assert (found["read"], found["why"], found["serial"]) == ("ethtool -m ens1", why, "")


def test_infiniband_is_read_by_mlxlink(port, tmp_path):
    (port / "type").write_text("32\n")
    (tmp_path / "mstlink").symlink_to("/bin/false")
    assert read(tmp_path)["read"] == "mstlink -d 0000:18:00.0 -m"
    (port / "device").unlink()
    assert read(tmp_path)["why"] == "it is no PCI function"
    assert serials.read_card("0000:18:00.0", tmp_path)["why"].endswith("No such file or directory")


def swap_run(name, serials, bad):
    """Return a kept run of nodes with one rail, by the serial number of its cable."""
    of_port = {"port": "rail0", "part": "MCP4Y10", "switch": "", "read": "ethtool -m rail0"}
    nic = {"rdma": "", "pci": "", "guid": "", "board": "", "firmware": ""}
    rails = {node: [{**nic, "modules": [{**of_port, "serial": s}]}] for node, s in serials.items()}
    found = {"kind": "rail.slow", "level": "rail", "rail": 0, "proven": True, "what": "slow"}
    data = {
        "verb": "accept",
        "started": name,
        "verdict": "failed" if bad else "ok",
        "findings": [{**found, "nodes": [node], "node": node} for node in bad],
        "nodes": {node: {"identity": {"gpus": [], "rails": own}} for node, own in rails.items()},
    }
    return KeptRun(Path(name), data)


@pytest.mark.parametrize(("runs", "expected", "same"), cases(__file__, "swaps"))
def test_serial_number_tells_what_a_swap_shows(runs, expected, same):
    kept = [swap_run(f"run-{number}", *each) for number, each in enumerate(runs)]
    accused = findings.accused(findings.of_run(kept[0], "gpu1"), "gpu1")
    found = parts.moves(kept, kept[0], "gpu1", accused)
    assert [[row["serial"], row["now"], row["fault"]] for row in found] == expected
    rows = parts.fields(kept[:1], kept[0], "gpu1", accused)
    assert [row["value"] for row in rows if row["what"].endswith("same serial number")] == same
