"""The acceptance gate on two real nodes over gloo: a bad rail is named, and nothing is left.

That it accepts healthy nodes is in the demonstration, in test_provision. Each run imports torch
twice on each node, a minute and a half of an emulated processor: slow rails, deaths, interrupts,
hangs and wrong values are in tests/namespaces alone, with real ranks and a real kernel, too.
"""

from typing import Any

import jsonschema
import pytest
from tests.lab.fleet import SCHEMA, Fleet, leftovers_of_accept

pytestmark = [pytest.mark.lab, pytest.mark.hours]

STATE = "provisioned"


class Gate:
    def __init__(self, lab, directory) -> None:
        self.lab = lab
        self.fleet = Fleet(lab, directory)
        self.results: dict[str, Any] = {}

    def run(self, stages):
        words = ("--ignore-validate", "--sizes", "16K:64K", "--stages", stages)
        code, said = self.fleet.run("accept", *words)
        self.results = self.fleet.results()
        jsonschema.validate(self.results, SCHEMA)
        return code, said

    def leftovers(self):
        return leftovers_of_accept(self.lab)


def test_a_bad_rail_is_named(lab, tmp_path):
    gate = Gate(lab, tmp_path)
    lab.must("fault", "node2", "rail-drops-packets", "--rail", "1")
    code, said = gate.run("fleet")
    assert code == 1, said
    suspects = {(f["node"], f["rail"]) for f in gate.results["findings"] if f["proven"]}
    assert ("node2", 1) in suspects
    assert all(rail == 1 for _, rail in suspects)
    found = [f["what"] for f in gate.results["findings"] if f["node"] == "node2"]
    assert any("TCP retransmissions" in what for what in found)
    assert gate.leftovers() == ["", ""]
