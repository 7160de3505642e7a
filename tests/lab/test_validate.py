"""The gate on real nodes: silent when all is right, and it finds each fault of the catalogue."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from rdmaprov.lab.model import Lab
from rdmaprov.resources import data_dir

pytestmark = [pytest.mark.lab, pytest.mark.unproven]

NODES = CHANGES = ("node1", "node2")
TIMEOUT_S = 1800
TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "validate" / "faults.yml").read_text()
)
# These need a node with the vendor's driver, or end what would judge it.
ELSEWHERE = ("peermem-unloaded", "driver-version-different", "sshd-hangs")
FAULTS = [name for name, fault in TABLE.items() if fault.get("lab") and name not in ELSEWHERE]
# Why a test may have nothing to judge on a node of the lab: no card, or the site does not say.
ACCEPTED = re.compile(
    r"virtio|Soft-RoCE|mlx5_core is not loaded|not open|no congestion control|vendor's driver"
    r"|inbox|the site |peermem_mode: off|torch_runtime_kind|keep|RoCE: |is empty|: \{\}"
    r"|no processors|does not set frequencies|no NUMA balancing|NVIDIA NIC|names no GPU"
    r"|none of these services|no IOMMU|no selected node|nothing translates|fabric_"
)


class Gate:
    """The lab's site, and the gate run on it."""

    def __init__(self, directory: Path, known: Lab) -> None:
        self.directory = directory
        self.site = Path(shutil.copytree(known.site, directory / "site"))
        variables = data_dir("inventory") / "lab" / "group_vars"
        shutil.copytree(variables, self.site / "group_vars", dirs_exist_ok=True)

    def rdmaprov(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Return how a verb ended."""
        return subprocess.run(
            [sys.executable, "-m", "rdmaprov", *words],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def judge(self) -> dict[str, list[str]]:
        """Return by state of a test FILE::FUNCTION[TARGET] with its message."""
        report = self.directory / "junit.xml"
        self.rdmaprov("validate", str(self.site), f"--junitxml={report}")
        found: dict[str, list[str]] = {"passed": [], "failure": [], "error": [], "skipped": []}
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 (pytest's own)
            name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
            state = next((each for each in case if each.tag in found), None)
            message = "" if state is None else f" {state.get('message')} {state.text or ''}"
            found["passed" if state is None else state.tag].append(name + message)
        return found


@pytest.fixture(scope="module")
def gate(lab, tmp_path_factory):
    known = Lab.load(lab.layout.state)
    assert known is not None
    return Gate(tmp_path_factory.mktemp("gate"), known)


def test_factory_nodes_fail_and_nothing_is_an_error(gate):
    found = gate.judge()
    assert found["error"] == []
    failed = {each.partition(".py::")[0] for each in found["failure"]}
    roles = {"fabric", "mtu", "roce_qos", "hugepages", "limits", "mlx5", "nccl", "pcie", "ofed"}
    assert {f"test_{role}" for role in roles} <= failed


def test_provisioned_nodes_are_green(gate):
    done = gate.rdmaprov("apply", str(gate.site))
    assert done.returncode == 0, done.stdout + done.stderr
    found = gate.judge()
    assert found["failure"] + found["error"] == []
    assert [each for each in found["skipped"] if not ACCEPTED.search(each)] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_by_its_tests(fault, gate, lab):
    lab.must("fault", NODES[0], fault)
    try:
        found = gate.judge()
    finally:
        lab.must("heal", NODES[0])
    red = found["failure"]
    tests = set(TABLE[fault]["red"])
    # What only another site or a real card shows is not asked of the lab.
    assert any(each.partition("[")[0] in tests and NODES[0] in each for each in red), red
    subjects = {test.partition("::")[0] for test in tests} | {"test_path.py"}
    assert [each for each in red if each.partition("::")[0] not in subjects] == []
