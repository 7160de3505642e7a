"""InfiniBand that is no fault: no IPoIB, other partitions, healthy subnet managers, and none."""

from dataclasses import replace

import pytest
from tests.validate.runner import FakeHosts, Judge, described, functions, hosts_of, judge

NAMES = frozenset(
    {
        "test_fabric.py::test_rail_is_up",
        "test_mtu.py::test_mtu_running",
        "test_mtu.py::test_mtu_after_reboot",
        "test_infiniband.py::test_partition_keys",
    }
)


@pytest.fixture
def changed(infiniband_nodes, tmp_path):
    return infiniband_nodes["gpu1"].like(tmp_path / "gpu1")


@pytest.fixture
def found(suite, infiniband_fleet, infiniband_nodes, changed):
    judged = Judge(suite, infiniband_fleet, infiniband_nodes, changed)
    return lambda **values: {(o.test, o.state) for o in judged(*NAMES, **values)}


def test_ipoib_that_is_not_used_is_not_judged(found, changed):
    """Its devices are down, and have the MTU of the port: nobody brought them up."""
    for netdev in ("ens1", "ens2.8001"):
        changed.put(f"/sys/class/net/{netdev}/flags", "0x1002\n")
        changed.put(f"/sys/class/net/{netdev}/mtu", "4092\n")
        changed.remove(f"/etc/systemd/network/20-rdmaprov-{netdev}.network.d")
    seen = found(fabric_ipoib=False)
    assert {state for test, state in seen if "partition" not in test} == {"skipped"}
    seen = found()
    assert {state for test, state in seen if "partition" not in test} == {"failed"}


def test_other_partitions_of_a_port_are_no_fault(found, changed):
    changed.put("/sys/class/infiniband/mlx5_0/ports/1/pkeys/2", "0x8007\n")
    seen = found()
    assert ("test_infiniband.py::test_partition_keys", "passed") in seen
    assert {state for _, state in seen} == {"passed"}


def test_rails_named_by_their_rdma_devices_need_no_network_device(
    suite, infiniband_fleet, infiniband_nodes, tmp_path
):
    """As with ib_ipoib not loaded: all tests judge the ports, and none fails."""
    hosts, nodes = FakeHosts(), []
    for node in infiniband_fleet.nodes:
        fake = infiniband_nodes[node.name].like(tmp_path / node.name)
        for netdev in ("ens1", "ens2", "ens2.8001"):
            fake.remove(f"/sys/class/net/{netdev}")
        fake.remove("/etc/systemd/network")
        hosts[node.name] = fake.host()
        rails = tuple(
            replace(rail, netdev="", pci="", rdma=f"mlx5_{rail.index}", address=None, ipoib_pkey="")
            for rail in node.rails
        )
        nodes.append(replace(node, rails=rails, values={**node.values, "fabric_ipoib": False}))
    outcomes = judge(suite, replace(infiniband_fleet, nodes=tuple(nodes)), hosts)
    # mlx5_8 and mlx5_9 are other cards, after which the kernel could count these.
    wrong = [o for o in outcomes if o.state in ("failed", "error")]
    assert {o.test for o in wrong} == {"test_nccl.py::test_listed_names_stay_with_their_cards"}
    assert all("(fabric_rails; read:" in o.said for o in wrong)
    assert {
        "test_fabric.py::test_rail_has_network_device",
        "test_links.py::test_port_is_active",
        "test_links.py::test_pcie_link",
        "test_pcie.py::test_max_read_request",
        "test_affinity.py::test_no_other_rail_is_nearer_to_the_gpu",
        "test_cables.py::test_module_is_within_its_limits",
        "test_infiniband.py::test_partition_keys",
        "test_nccl.py::test_hcas_are_the_rails",
    } <= {o.test for o in outcomes if o.state == "passed"}


@pytest.mark.parametrize(("name", "engine"), [("gpu1", "passed"), ("gpu2", "skipped")])
def test_master_and_standby_pass(suite, fleet, nodes, name, engine):
    named = (described(each, subnet_manager_hosts=["gpu1", "gpu2"]) for each in fleet.nodes)
    outcomes = managers_judged(suite, replace(fleet, nodes=(*named,)), nodes, name)
    states = {each.test.rpartition("::")[2]: each.state for each in outcomes}
    assert states.pop("test_routing_engine_in_force") == engine
    assert set(states.values()) == {"passed"}
    assert len(states) == 5


def test_site_without_managers_is_skipped(suite, fleet, nodes):
    assert {each.state for each in managers_judged(suite, fleet, nodes, "gpu1")} == {"skipped"}


def managers_judged(suite, fleet, nodes, name):
    (only,) = [each for each in fleet.nodes if each.name == name]
    names = frozenset(test for test in functions(suite) if "test_subnet_manager" in test)
    return judge(suite, fleet, hosts_of(nodes), only=only, names=names)
