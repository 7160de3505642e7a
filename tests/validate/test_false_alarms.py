"""What is no fault turns nothing red: other devices, names, orders, and what InfiniBand may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.tables import cases
from tests.validate.runner import (
    SKIPPED,
    FakeHosts,
    Judge,
    described,
    functions,
    hosts_of,
    judge,
    table,
    wrong,
)
from tests.validate.test_faults import alter


def test_infiniband_fleet_is_silent_and_all_of_a_subnet_is_judged(
    suite, infiniband_fleet, infiniband_nodes
):
    outcomes = judge(suite, infiniband_fleet, hosts_of(infiniband_nodes))
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
    outcomes = judge(suite, fleet, hosts_of(nodes))
    assert [o for o in outcomes if o.state in ("failed", "error")] == []
    assert {o.test: o.said for o in outcomes if o.state == "skipped"} == SKIPPED


def test_like_nodes_are_asked_the_same(suite, fleet, nodes):
    """What was learnt on one node answers for the next: the suite is one round trip for a node."""
    hosts = hosts_of(nodes)
    judge({file: module for file, module in suite.items() if file != "test_path.py"}, fleet, hosts)
    one, other = (set(hosts[name].backend.ran) for name in ("gpu1", "gpu2"))
    assert one == other


SILENT = table("silent.yml")


@pytest.mark.parametrize("name", SILENT)
def test_what_is_no_fault_is_silent(judged, changed, name):
    node = judged.node
    for step in SILENT[name]:
        node = alter({"gpu1": changed}, node, step)
    assert wrong(judged(node=node)) == []


@pytest.mark.parametrize(
    ("changes", "note", "said"), cases(__file__, "link_was_taken_down_by_apply")
)
def test_link_was_taken_down_by_apply(judged, changed, changes, note, said):
    """Setting PFC toggles a port: twelve changes, of which apply made four, are no bad cable."""
    changed.put("/proc/uptime", "95.00 10.00\n")
    changed.put("/proc/sys/kernel/random/boot_id", "one\n")
    changed.put("/sys/class/net/ens1/carrier_changes", changes + "\n")
    changed.put("/run/rdmaprov/link-changes.json", note)
    found = wrong(judged())
    assert len(found) == bool(said), found
    assert all("test_link_does_not_flap" in each and said in each for each in found)


def test_network_device_of_a_rail_by_pci_address_is_renamed(judged, changed):
    """A rail that the site names by its PCI address may have any name on the node."""
    for path in changed.files_with("ens2"):
        changed.replace_all(path, "ens2", "enp64s0np0")
    changed.rename_all("ens2", "enp64s0np0")
    assert wrong(judged()) == []


def test_rails_are_in_another_order(judged, changed):
    """Rail 0 may be the device with the higher number: the site's order counts."""
    one, other = judged.node.rails
    rails = (replace(other, index=0, gpus=other.gpus), replace(one, index=1, gpus=one.gpus))
    for path in (
        "/etc/systemd/network/20-rdmaprov-ens1.network",
        "/etc/systemd/network/20-rdmaprov-ens2.network",
    ):
        changed.replace_all(path, "1000", "x")
        changed.replace_all(path, "1001", "1000")
        changed.replace_all(path, "x", "1001")
    changed.answer("ip -N -j -4 rule show", RULES)
    for number, network, netdev in (
        (1000, "198.18.1.0/24", "ens2"),
        (1001, "198.18.0.0/24", "ens1"),
    ):
        route = f'[{{"dst": "{network}", "dev": "{netdev}", "flags": []}}]'
        changed.answer(f"ip -N -j -4 route show table {number}", route)
    changed.replace("/etc/nccl.conf", "mlx5_0,mlx5_1", "mlx5_1,mlx5_0")
    found = wrong(judged(node=replace(judged.node, rails=rails)))
    # The other node still has the rails in their old order, which paths between them show.
    assert [each for each in found if not each.startswith("test_path.py")] == []


def test_other_devices_come_and_go(judged, changed):
    """A USB NIC, a bridge of containers and an RDMA device on the management NIC are no rails."""
    for name in ("usb0", "docker0", "veth1a2b"):
        place = f"/sys/devices/virtual/net/{name}"
        changed.put_all(place, {"mtu": "1500", "flags": "0x1002", "ifindex": "77", "iflink": "77"})
        changed.link(f"/sys/class/net/{name}", place)
    changed.put("/sys/devices/virtual/infiniband/rxe0/parent", "docker0\n")
    changed.link("/sys/class/infiniband/rxe0", "/sys/devices/virtual/infiniband/rxe0")
    assert wrong(judged()) == []


def test_older_kernel_got_dma_buf_later(judged, changed):
    """A distribution's kernel with an old number and the symbol, as with drivers of DOCA."""
    changed.put("/proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64\n")
    (outcome,) = judged("test_peermem.py::test_node_can_do_dmabuf", peermem_mode="dmabuf")
    assert outcome.state == "passed"


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "state"),
    [
        ("pfc-prevention-tout: 65535\n", "", 0, "passed"),
        ("pfc-prevention-tout: 80\n", "", 0, "passed"),
        ("", "pfc-prevention-tout: Cannot get tunable\n", 95, "skipped"),
    ],
)
def test_any_time_to_stop_a_storm_will_do(judged, changed, stdout, stderr, code, state):
    """Also the driver's own; and a driver without it has nothing to be judged."""
    changed.answer("ethtool --get-tunable ens1 pfc-prevention-tout", stdout, stderr, code)
    outcomes = judged("test_roce_qos_storm.py::test_stalled_port_stops_pausing")
    assert [outcome.state for outcome in outcomes] == [state, "passed"]


RULES = cases(__file__, "rules")


def test_kernel_with_large_memory_pages_has_another_default_size(judged, changed):
    """Memory pages of 64 KiB, as on Grace: 512 MiB is the default, and the site asks for none."""
    changed.replace("/proc/meminfo", "Hugepagesize:       2048", "Hugepagesize:     524288")
    test = "test_hugepages.py::test_default_size_running"
    assert [each.state for each in judged(test, hugepages_default_size="keep")] == ["skipped"]
    assert [each.state for each in judged(test)] == ["failed"]


def test_hugepages_that_the_site_does_not_ask_for_are_somebody_elses(suite, fleet, nodes):
    """Four pages of 1 GiB by the kernel's command line; the site says nothing of that size."""
    names = (
        "1g_pages_running",
        "kernel_was_started_for_hugepages",
        "kernel_arguments_after_reboot",
    )
    nothing: dict[str, Any] = {"hugepages_1g_count": 0, "hugepages_default_size": "keep"}
    judged = Judge(suite, fleet, nodes, nodes["gpu1"])

    def states(**values):
        tests = (f"test_hugepages.py::test_{name}" for name in names)
        return {each.state for each in judged(*tests, **nothing, **values)}

    assert states(hugepages_unlisted="keep") == {"skipped"}
    assert states(hugepages_unlisted="free") == {"failed"}


def test_qos_that_somebody_else_sets_needs_no_unit_of_ours(judged, changed):
    """The image sets QoS, by lldpad: the values are checked, the units are not."""
    changed.remove("/etc/rdmaprov/roce_qos/ens1.json")
    changed.unit("lldpad.service", ActiveState="active", UnitFileState="enabled")
    for unit in ("ens1", "ens2"):
        changed.unit(f"rdmaprov-roce-qos@{unit}.service", ActiveState="", UnitFileState="")
    assert len(wrong(judged())) > 3
    assert wrong(judged(roce_qos_backend="keep")) == []


NAMES = frozenset(
    {
        "test_fabric.py::test_rail_is_up",
        "test_mtu.py::test_mtu_running",
        "test_mtu.py::test_mtu_after_reboot",
        "test_infiniband.py::test_partition_keys",
    }
)


@pytest.fixture
def on_infiniband(infiniband_nodes, tmp_path):
    return infiniband_nodes["gpu1"].like(tmp_path / "gpu1")


@pytest.fixture
def found(suite, infiniband_fleet, infiniband_nodes, on_infiniband):
    judged = Judge(suite, infiniband_fleet, infiniband_nodes, on_infiniband)
    return lambda **values: {(o.test, o.state) for o in judged(*NAMES, **values)}


def test_ipoib_that_is_not_used_is_not_judged(found, on_infiniband):
    """Its devices are down, and have the MTU of the port: nobody brought them up."""
    for netdev in ("ens1", "ens2.8001"):
        on_infiniband.put(f"/sys/class/net/{netdev}/flags", "0x1002\n")
        on_infiniband.put(f"/sys/class/net/{netdev}/mtu", "4092\n")
        on_infiniband.remove(f"/etc/systemd/network/20-rdmaprov-{netdev}.network.d")
    seen = found(fabric_ipoib=False)
    assert {state for test, state in seen if "partition" not in test} == {"skipped"}
    seen = found()
    assert {state for test, state in seen if "partition" not in test} == {"failed"}


def test_other_partitions_of_a_port_are_no_fault(found, on_infiniband):
    on_infiniband.put("/sys/class/infiniband/mlx5_0/ports/1/pkeys/2", "0x8007\n")
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
    bad = [o for o in outcomes if o.state in ("failed", "error")]
    assert {o.test for o in bad} == {"test_nccl.py::test_listed_names_stay_with_their_cards"}
    assert all("(fabric_rails; read:" in o.said for o in bad)
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
