"""RDMA inside of two real nodes: loopbacks over Soft-RoCE, as the stage `host` runs them."""

import pytest
from tests.lab.test_acceptance import Gate

pytestmark = [pytest.mark.lab, pytest.mark.hours]  # with the paths between nodes

STATE = "provisioned"


@pytest.fixture
def gate(lab, tmp_path):
    return Gate(lab, tmp_path)


def host_stage(gate: Gate) -> str:
    gate.run("host")
    return next(str(each["said"]) for each in gate.results["stages"] if each["name"] == "host")


def test_each_rail_reaches_itself_and_no_floor_applies(gate):
    said = host_stage(gate)
    assert "RDMA loopbacks at " in said
    assert "Soft-RoCE: no floor applies" in said
    table = (gate.fleet.newest() / "logs/loopback.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in table[1:]]
    assert {(node, rail) for node, rail, *_ in rows} >= {
        (node, str(rail)) for node in ("node1", "node2") for rail in (0, 1)
    }
    assert all(float(row[3]) > 0 and not row[4] and not row[5] for row in rows), table
    assert gate.leftovers() == ["", ""]


def test_without_perftest_it_is_said(gate):
    for name in ("node1", "node2"):
        gate.lab.run(name, "chmod -x /usr/bin/ib_write_bw /usr/bin/ib_write_lat")
    assert "RDMA loopbacks of 2 nodes not verified: perftest is not installed" in host_stage(gate)
