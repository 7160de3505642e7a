"""The lab's nodes as a site of the user's own, and the verbs that are run on it."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from plugins.module_utils.roles import ORDER
from tests.lab.handle import LabHandle
from tests.site_runs import SiteRuns

NODES = ("node1", "node2")
FOUR = (*NODES, "node3", "node4")
# Those that a factory node lacks something of, in their order. The driver is the kernel's own,
# there is no GPU, and the site names no subnet manager: these have nothing to do.
WITHOUT = ("ofed", "peermem", "subnet_manager")
ROLES = tuple(role for role in ORDER if role not in WITHOUT)
# An emulated processor takes a while to unpack a dozen modules for modinfo. Of a quiet machine.
PATIENT = {"--command-timeout": 60, "--node-timeout": 900}
SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "results.schema.json").read_text())
LEFT = "ls -d /run/rdmaprov-accept* 2>/dev/null; pgrep -f 'rdmaprov-accept|agent.pyz'; true"


class Fleet(SiteRuns):
    def __init__(self, lab: LabHandle, directory: Path) -> None:
        super().__init__(directory, lab.copy_site(directory))
        self.lab = lab

    def limit_s(self, base_s: float) -> float:
        """Return a time limit for the machine as the lab measured it last."""
        return self.lab.limit_s(base_s)

    def patient(self) -> list[str]:
        """Return the options of validate that suit that machine."""
        return [f"{name}={self.limit_s(base_s):.0f}" for name, base_s in PATIENT.items()]

    def apply(self, *words: str) -> str:
        code, said = self.run("apply", *words)
        assert code == 0, said
        return said

    def pending(self) -> dict[str, list[str]]:
        """Return by node the roles that have something to change."""
        code, said = self.run("plan")
        assert code in (0, 5), said
        return {name: list(node["changes"]) for name, node in self.results()["nodes"].items()}

    def judge(self) -> dict[str, list[str]]:
        """Return by state of a test FILE::FUNCTION[TARGET] with its message."""
        report = self.directory / "junit.xml"
        self.run("validate", *self.patient(), f"--junitxml={report}")
        return read_report(report)


def read_report(report: Path) -> dict[str, list[str]]:
    """Return by state what pytest's report has of each test, as `Fleet.judge` does."""
    found: dict[str, list[str]] = {"passed": [], "failure": [], "error": [], "skipped": []}
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314 (pytest's own)
        name = f"{case.get('classname', '').rpartition('.')[2]}.py::{case.get('name')}"
        state = next((each for each in case if each.tag in found), None)
        message = "" if state is None else f" {state.get('message')} {state.text or ''}"
        found["passed" if state is None else state.tag].append(name + message)
    return found


def leftovers_of_accept(lab: LabHandle, nodes: Sequence[str] = NODES) -> list[str]:
    return [lab.run(node, LEFT).strip() for node in nodes]
