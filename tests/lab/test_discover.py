"""Nodes are read over ssh into host variables that describe them."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.lab.handle import LabHandle
from tests.tables import cases

from rdmaprov.inventory import load_site

pytestmark = pytest.mark.lab

NODES = ("node1", "node2")
SHARED = True
GIB = 1 << 30
SWITCH = cases(__file__, "switch")


@pytest.fixture
def site(lab, tmp_path):
    copy = lab.copy_site(tmp_path)
    hosts = yaml.safe_load((copy / "hosts.yml").read_text())
    for variables in hosts["lab"]["hosts"].values():
        del variables["fabric_rails"]
    (copy / "hosts.yml").write_text(yaml.safe_dump(hosts))
    (copy / "group_vars" / "all.yml").write_text("fabric_kind: roce\nfabric_mtu_bytes: 4200\n")
    return copy


@pytest.fixture
def linked(lab):
    for node in NODES:
        lab.run(node, SWITCH.format(state="up", wanted="ACTIVE"))
    yield
    for node in NODES:
        lab.run(node, SWITCH.format(state="down", wanted="DOWN"))


def rdmaprov(lab: LabHandle, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rdmaprov", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=lab.limit_s(300),
        check=False,
    )


def test_discovered_variables_describe_the_nodes(lab, site, linked):  # noqa: ARG001
    first = rdmaprov(lab, "discover", site, "--merge")
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("wrote") == len(NODES)
    again = rdmaprov(lab, "discover", site, "--merge")
    assert again.stdout.splitlines() == [f"{node}: nothing new" for node in NODES]
    checked = rdmaprov(lab, "check", site)
    assert (checked.returncode, checked.stdout) == (0, "")

    for node in load_site(site).nodes:
        assert [rail["netdev"] for rail in node.get("fabric_rails")] == [
            lab.netdev(node.name, 0),
            lab.netdev(node.name, 1),
        ]
        assert node.get("fabric_link_gbps") == 10
        assert node.get("fabric_numa_nodes") == 2
        assert 1.8 * GIB < node.get("fabric_memory_bytes") <= 2 * GIB
