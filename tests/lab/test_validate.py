"""The suite on real nodes finds each fault of the catalogue, by its own tests alone.

That it is green on healthy nodes is in the demonstration, in test_provision.
"""

import itertools
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.lab.fleet import NODES

from rdmaprov.lab.faults import catalogue

pytestmark = pytest.mark.lab

STATE = "provisioned"  # of each round: what a link did in one before counts as flaps
TABLE: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "validate" / "faults.yml").read_text()
)
# These need a node with the vendor's driver, or end what would judge it.
ELSEWHERE = ("peermem-unloaded", "driver-version-different", "sshd-hangs")
FAULTS = [name for name, fault in TABLE.items() if fault.get("lab") and name not in ELSEWHERE]
CATALOGUE = catalogue()
PATH, RAILS = "test_path.py", {0, 1}


@pytest.fixture
def gate(lab, fleet):
    for node in NODES:
        lab.run(node, "modprobe mlx5_core")  # as a card would have it
    return fleet


class Broken(NamedTuple):
    fault: str
    node: str
    rail: int

    @property
    def subjects(self) -> set[object]:
        """What tells that it is there: files of the suite, on a node; and a rail's path."""
        files = {test.partition("::")[0] for test in TABLE[self.fault]["red"]}
        rails = RAILS if self.fault == "rail-addresses-swapped" else {self.rail}
        between = rails if PATH in files else set()
        return between | {(self.node, file) for file in files - {PATH}}


def rounds() -> list[list[Broken]]:
    """Return faults that can be told apart when they are there at once, round by round.

    On a node no two that the same file finds, and of those between nodes one on a rail.
    """
    made: list[list[Broken]] = []
    for fault in FAULTS:
        rails = sorted(RAILS) if CATALOGUE[fault].of_rail else [0]
        places = [Broken(fault, node, rail) for node in NODES for rail in rails]
        for there, broken in itertools.product([*made, []], places):
            if not any(broken.subjects & other.subjects for other in there):
                if not there:
                    made.append(there)
                there.append(broken)
                break
    return made


@pytest.mark.parametrize("faults", rounds(), ids=lambda each: "+".join(one.fault for one in each))
def test_faults_are_found_by_their_tests_alone(faults, gate, lab):
    for each in faults:
        rail = ["--rail", str(each.rail)] if CATALOGUE[each.fault].of_rail else []
        lab.must("fault", each.node, each.fault, *rail)
    red = gate.judge()["failure"]
    for each in faults:
        # What only another site or a real card shows is not asked of the lab.
        tests = set(TABLE[each.fault]["red"])
        devices = {lab.netdev(each.node, each.rail), f"mlx5_{each.rail}"}
        names = devices if CATALOGUE[each.fault].of_rail else {each.node}
        seen = [one for one in red if re.split(r"[\[ ]", one)[0] in tests and each.node in one]
        assert any(name in one for one in seen for name in names), (each, red)
    expected = {subject for each in faults for subject in each.subjects}
    assert [one for one in red if not _is_of(one, expected)] == []


def _is_of(failure: str, expected: set[object]) -> bool:
    """Tell whether a failure is of a node and file; the way between nodes is of both."""
    file, _, rest = failure.partition("::")
    node = re.search(r"\[(node\d)", rest)
    return file == PATH or (node is not None and (node[1], file) in expected)
