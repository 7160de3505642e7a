"""A node for the role nccl, with the arguments that the role gets."""

from typing import Any

from tests.roles.fake import FakeMachine, given

CONF = "/etc/nccl.conf"
OLD = "NCCL_IB_HCA=mlx5_bond_0\nNCCL_IB_GID_INDEX=3\nNCCL_IB_TC=0\nNCCL_SOCKET_IFNAME=eno1\n"
ROCE = [
    "NCCL_IB_HCA==rocep24s0,mlx5_1",
    "NCCL_IB_TC=106",
    "NCCL_IB_ADDR_FAMILY=AF_INET",
    "NCCL_CROSS_NIC=0",
]


def two_rails(machine: FakeMachine) -> FakeMachine:
    machine.nic("ens1", pci="0000:18:00.0", rdma="rocep24s0", index=3)
    machine.nic("ens2", pci="0000:29:00.0", rdma="mlx5_1", index=4)
    machine.nic("eno1", pci="0000:01:00.0", index=2)
    for name in ("rocep24s0", "mlx5_1"):
        for index, kind in enumerate(["IB/RoCE v1", "RoCE v2"]):
            machine.put(f"/sys/class/infiniband/{name}/ports/1/gid_attrs/types/{index}", kind)
    return machine


def arguments(**changed: object) -> dict[str, Any]:
    rails = [{"netdev": "ens1"}, {"pci": "0000:29:00.0"}]
    fabric = {"kind": "roce", "rails": rails, "ib_tc": 106, "ib_sl": 0, "ib_pkey": ""}
    return given("nccl", **{**fabric, "ib_address_family": "ipv4", "cross_nic": 0, **changed})


def body(node: FakeMachine) -> list[str]:
    header, *lines = (node.read(CONF) or "").splitlines()
    assert "=" not in header
    return lines


def backups(node: FakeMachine) -> list[str]:
    return [name for name in node.names("/etc") if name.startswith("nccl.conf.")]
