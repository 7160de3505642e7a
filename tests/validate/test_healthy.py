"""The suite is silent on a healthy fleet."""

from __future__ import annotations

from tests.validate.runner import FakeHosts, judge

# What the made-up site does not have, or keeps as it is.
SKIPPED = {
    "test_cabling.py::test_nodes_of_one_leaf_share_switches": (
        "fewer than two nodes have RoCE rails to compare without a plan"
    ),
    "test_cabling.py::test_switches_have_the_same_rails_of_each_node": (
        "fewer than two nodes have RoCE rails to compare without a plan"
    ),
    **{
        f"test_gpu.py::test_imex_{name}": "the site does not set fabric_nvlink_domain"
        for name in ("runs", "channel_running", "channel_after_reboot")
    },
    **{
        f"test_gpu.py::test_nvlink_subnet_manager_{name}": (
            "the node's NVSwitches are on its PCI bus, and need no NVLSM"
        )
        for name in ("runs", "after_reboot")
    },
    "test_uniformity.py::test_imex_lists": "no selected node has one",
    "test_uniformity.py::test_nvlink_domains": "no selected node has one",
    "test_nccl.py::test_listed_names_stay_with_their_cards": (
        "nccl_ib_hca: [], so the rails' devices are found"
    ),
    "test_nccl.py::test_listed_names_after_reboot": (
        "nccl_ib_hca: [], so the rails' devices are found"
    ),
    "test_nccl.py::test_containers_get_the_file": (
        "nccl_enroot: off, and no container engine is without the file"
    ),
    "test_nccl.py::test_adaptive_routing_is_the_sites": (
        "fabric_adaptive_routing: auto, so NCCL decides"
    ),
    "test_nccl.py::test_collnet_is_on_where_sharp_is_wanted": (
        "the site does not want SHARP (fabric_sharp)"
    ),
    "test_nccl.py::test_service_level_is_the_fabrics": (
        "fabric_kind: roce and nccl_ib_sl: 0, so NCCL_IB_SL is not set"
    ),
    "test_pcie_peers.py::test_iommu_does_not_translate_where_acs_is_off": (
        "pcie_iommu: passthrough, which test_iommu.py judges"
    ),
    "test_peermem.py::test_node_can_do_dmabuf": "peermem_mode: nvidia-peermem",
    "test_torch_runtime.py::test_image_is_present": "torch_runtime_kind: venv",
}


# What RoCE has not, by the test that would judge it.
_ABSENT = {
    "test_infiniband.py::test_ipoib_mode_after_reboot": "IPoIB",
    "test_infiniband.py::test_ipoib_mode_running": "IPoIB",
    "test_infiniband.py::test_ipoib_partition": "IPoIB",
    "test_infiniband.py::test_ipoib_partition_after_reboot": "IPoIB",
    "test_infiniband.py::test_lanes_and_speed": "generations of InfiniBand",
    "test_infiniband.py::test_partition_keys": "partition keys",
    "test_infiniband.py::test_port_has_a_lid": "subnet manager",
    "test_infiniband.py::test_port_knows_its_subnet_manager": "subnet manager",
    "test_infiniband.py::test_subnet_prefix": "subnet prefix",
    "test_nccl.py::test_partition_is_the_fabrics": "partition keys",
    "test_uniformity.py::test_guids": "subnet manager",
    "test_uniformity.py::test_subnets": "subnet manager",
}
SKIPPED |= {
    f"test_subnet_manager.py::test_{name}": "subnet_manager_hosts: the node runs no subnet manager"
    for name in (
        "manager_after_reboot",
        "manager_configured",
        "manager_in_the_subnet",
        "manager_running",
        "routing_engine_in_force",
    )
}
SKIPPED["test_subnet_manager.py::test_no_other_manager"] = "subnet_manager_hosts: []"
SKIPPED |= {test: f"fabric_kind: roce, which has no {what}" for test, what in _ABSENT.items()}


def test_infiniband_fleet_is_silent_and_all_of_a_subnet_is_judged(
    suite, infiniband_fleet, infiniband_nodes
):
    hosts = FakeHosts({name: node.host() for name, node in infiniband_nodes.items()})
    outcomes = judge(suite, infiniband_fleet, hosts)
    assert [o for o in outcomes if o.state in ("failed", "error")] == []
    of_a_subnet = ("test_infiniband.py", "test_cables.py", "test_uniformity.py", "test_mtu.py")
    skipped = {o.test for o in outcomes if o.state == "skipped"}
    # Rail 1 alone is on a partition's interface.
    of_partition = {
        f"test_infiniband.py::test_ipoib_partition{when}" for when in ("", "_after_reboot")
    }
    for test in of_partition:
        assert [o.state for o in outcomes if o.test == test] == ["skipped", "passed"] * 2
    assert [t for t in skipped - of_partition if t.startswith(of_a_subnet)] == []
    assert {
        "test_nccl.py::test_adaptive_routing_is_the_sites",
        "test_nccl.py::test_partition_is_the_fabrics",
        "test_links.py::test_rate",
    } & skipped == set()


def test_nothing_is_wrong_and_no_more_is_skipped(suite, fleet, nodes):
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    outcomes = judge(suite, fleet, hosts)
    wrong = [o for o in outcomes if o.state in ("failed", "error")]
    assert wrong == []
    assert {o.test: o.said for o in outcomes if o.state == "skipped"} == SKIPPED


def test_like_nodes_are_asked_the_same(suite, fleet, nodes):
    """What was learnt on one node answers for the next: the suite is one round trip for a node."""
    hosts = FakeHosts({name: node.host() for name, node in nodes.items()})
    state = {file: module for file, module in suite.items() if file != "test_path.py"}
    judge(state, fleet, hosts)
    one, other = (set(hosts[name].backend.ran) for name in ("gpu1", "gpu2"))
    assert one == other
