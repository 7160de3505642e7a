"""Each role on a made-up node, for `test_mutations`, `test_undo` and `test_readings`."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.links import Links
from plugins.module_utils.machine import CommandFailed, Machine
from plugins.module_utils.plan import Plan
from plugins.module_utils.roles import (
    fabric,
    hugepages,
    limits,
    mlx5,
    mtu,
    nccl,
    ofed,
    pcie,
    peermem,
    roce_qos,
    subnet_manager,
    torch_runtime,
)
from tests.roles import (
    apt_node,
    fabric_node,
    hugepages_node,
    limits_node,
    links_node,
    mlx5_node,
    nccl_node,
    ofed_node,
    opensm_node,
    pcie_node,
    peermem_node,
    qos_node,
    test_mtu,
    test_nccl,
    torch_node,
)
from tests.roles.fake import FakeMachine


@dataclass(frozen=True)
class Case:
    """A role on a made-up node; `ignored` mutations are no setting of it, with the reason."""

    role: Any
    arguments: dict[str, Any]
    node: Callable[[Path], FakeMachine]
    ignored: dict[str, str] = field(default_factory=dict)
    least: int = 3


class OfManager:
    @staticmethod
    def plan(machine: Machine, arguments: dict[str, Any]) -> Plan:
        plan, links = Plan(machine), Links(machine, arguments["manager"])
        links.leftovers(plan, [links_node.rail()])
        links.of("ens1").address(plan, links_node.rail(), links_node.ROUTED)
        links.settle(plan)
        return plan


def fixture(function: Any, *more: Any) -> Callable[[Path], FakeMachine]:
    return lambda root: function.__wrapped__(FakeMachine(root), *more)


def vendors_qos(root: Path) -> FakeMachine:
    node = qos_node.QosNode.made(root)
    node.vendor()
    return node


def managed(manager: Callable[..., None]) -> Callable[[Path], FakeMachine]:
    def make(root: Path) -> FakeMachine:
        node = links_node.one_rail(FakeMachine(root))
        manager(node)
        return node

    return make


def routed(root: Path) -> FakeMachine:
    node = fabric_node.with_two_rails(FakeMachine(root))
    node.ip = fabric_node.with_ip(node)  # type: ignore[attr-defined]
    return node


CASES = {
    "fabric": Case(
        fabric,
        fabric_node.arguments(),
        routed,
        {"^/run/systemd/netif/links/": "what networkd read, looked at after a write"},
    ),
    "hugepages": Case(
        hugepages,
        hugepages_node.arguments(per_numa_node_2m=[512, 100], count_1g=4),
        hugepages_node.Node.made,
        {
            "/free_hugepages": "who uses pages",
            "^/boot/grub/grub.cfg (altered|mode|user|group|link)": "the distribution's, but for "
            "the arguments, which are put back besides",
        },
    ),
    "limits": Case(limits, limits_node.arguments(), limits_node.Node.made),
    "links of NetworkManager": Case(
        OfManager, {"manager": "auto"}, managed(links_node.with_network_manager)
    ),
    "links of ifupdown": Case(OfManager, {"manager": "auto"}, managed(links_node.with_ifupdown)),
    "links of netplan": Case(OfManager, {"manager": "netplan"}, managed(links_node.with_netplan)),
    "mlx5": Case(mlx5, mlx5_node.arguments(), lambda root: mlx5_node.with_mlx5(FakeMachine(root))),
    "mtu": Case(mtu, test_mtu.arguments(), fixture(test_mtu.node)),
    "nccl": Case(nccl, nccl_node.arguments(), fixture(test_nccl.node)),
    "ofed": Case(
        ofed,
        ofed_node.arguments(),
        apt_node.AptNode.made,
        {r"rdmaprov-ofed\.asc altered": "text outside the armor is no part of a key"},
    ),
    "pcie": Case(pcie, pcie_node.arguments(), pcie_node.Node.made),
    "peermem": Case(peermem, peermem_node.arguments(), lambda root: peer(root)),
    "roce_qos by dcb": Case(roce_qos, qos_node.arguments(backend="dcb"), qos_node.QosNode.made),
    "roce_qos by mlnx_qos": Case(
        roce_qos, qos_node.arguments(backend="mlnx_qos"), qos_node.QosNode.made
    ),
    "roce_qos with the vendor's driver": Case(
        roce_qos, qos_node.arguments(dcqcn={"rp_ai_rate": 10}), vendors_qos
    ),
    "subnet_manager": Case(
        subnet_manager,
        opensm_node.arguments(),
        opensm_node.OpensmNode.made,
        {"^node.masters": "who manages the subnet, which the fabric says"},
    ),
    "torch_runtime in an environment": Case(
        torch_runtime, torch_node.arguments(python=torch_node.PYTHON), torch_node.TorchNode
    ),
    "torch_runtime in an image": Case(
        torch_runtime,
        torch_node.arguments(kind="container", image=torch_node.IMAGE),
        torch_node.ImageNode,
        least=1,
    ),
}


def peer(root: Path) -> FakeMachine:
    with pytest.MonkeyPatch.context() as patch:
        return peermem_node.with_gpu(FakeMachine(root), patch)


def carry_out(case: Case, node: FakeMachine) -> None:
    """Make the node right, with what can only be planned after a part was done."""
    for _ in range(3):
        for step in case.role.plan(node, case.arguments).steps:
            step.do()


def alter(node: FakeMachine, changes: dict[str, Any]) -> None:
    """Have files with these texts, memory with these values, programs with these answers.

    A path begins with "/", what a program remembers with the node's attribute. None takes a file or
    a program away, and {fails: TEXT} has a program fail.
    """
    for name, value in copy.deepcopy(changes).items():
        first, *rest = name.split(".")
        if name.startswith("/"):
            node.remove(name) if value is None else node.put(name, value)
        elif hasattr(node, first):
            *holders, last = first, *rest
            at: Any = node
            for each in holders:
                at = at[each] if isinstance(at, dict) else getattr(at, each)
            at.__setitem__(last, value) if isinstance(at, dict) else setattr(at, last, value)
        elif value is None:
            del node.programs[name]
        else:
            failed = isinstance(value, dict) and CommandFailed([name], 1, value["fails"])
            node.programs[name] = failed or value
