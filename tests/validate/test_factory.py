"""On a node that nobody has configured, each setting's test fails, and nothing is an error."""

import json

from tests.validate.hardware import config_space
from tests.validate.healthy import RAILS
from tests.validate.runner import SKIPPED, functions, hosts_of, judge, table
from tests.validate.test_faults import alter

# Of the healthy node; and rdma_cm's ToS is only shown where somebody opened its directory.
NOT_JUDGED = {*SKIPPED, "test_roce_qos_marking.py::test_rdma_cm_marks_with_tos"}
FACTORY = table("factory.yml")


def factory(fake, node):
    steps = list(FACTORY["node"])
    for netdev, (rail, way, rdma, _) in RAILS.items():
        own = {"netdev": netdev, "rail": str(rail), "pci": way[-1], "rdma": rdma}
        text = json.dumps(FACTORY["rail"])
        for name, value in own.items():
            text = text.replace(f"@{name}@", value)
        steps += json.loads(text)
    for step in steps:
        alter({"gpu1": fake}, node, step)


def test_each_setting_is_found_and_nothing_is_an_error(suite, fleet, nodes, tmp_path):
    bare = {name: node.like(tmp_path / name) for name, node in nodes.items()}
    for node in bare.values():
        factory(node, fleet.nodes[0])
        node.put("/sys/bus/pci/devices/0000:17:00.0/config", config_space(bridge=True, acs=0x1D))
    outcomes = judge(suite, fleet, hosts_of(bare))
    assert [o for o in outcomes if o.state == "error"] == []
    factory_right = table("outcomes.yml")["factory"]
    right = {f"{file}::{test}" for file, tests in factory_right.items() for test in tests}
    failed = {o.test for o in outcomes if o.state == "failed"}
    assert failed == set(functions(suite)) - right - NOT_JUDGED
