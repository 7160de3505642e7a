"""Storage that a node depends on: by which servers, and over which devices."""

import json
from pathlib import Path

import pytest
from plugins.module_utils import storage
from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine
from tests.tables import cases

# Peers are the last column; the third port is ssh's.
SS = cases(__file__, "ss")


@pytest.fixture
def node(tmp_path: Path) -> FakeMachine:
    made_up = FakeMachine(tmp_path)
    made_up.programs["ss -Htn state established"] = SS
    made_up.programs["getent ahosts nas1"] = "10.9.0.30     STREAM nas1\n10.9.0.30     DGRAM\n"
    made_up.programs["getent ahosts gone"] = CommandFailed(["getent"], 2, "")
    return made_up


@pytest.mark.parametrize(("mount", "servers"), cases(__file__, "mount_depends_on_its_servers"))
def test_mount_depends_on_its_servers(node: FakeMachine, mount: str, servers: list[str]):
    node.put("/proc/mounts", mount + "\n")
    assert storage.servers(node) == [(each, "the filesystem on /data") for each in servers]


def test_block_devices_over_the_network_depend_on_their_servers(node: FakeMachine):
    node.put("/sys/class/nvme/nvme0/transport", "pcie\n")
    node.put("/sys/class/nvme/nvme0/address", "0000:c1:00.0\n")
    node.put("/sys/class/nvme/nvme1/transport", "rdma\n")
    node.put("/sys/class/nvme/nvme1/address", "traddr=10.1.0.5,trsvcid=4420,src_addr=10.1.0.7\n")
    node.put("/sys/class/iscsi_connection/connection1:0/persistent_address", "10.1.0.6\n")
    assert storage.servers(node) == [
        ("10.1.0.5", "the NVMe-oF controller nvme1"),
        ("10.1.0.6", "the iSCSI connection1:0"),
    ]


def qp(comm: str, **more: object) -> dict[str, object]:
    return {"ifname": "mlx5_0", "port": 1, "type": "RC", "state": "RTS", "comm": comm, **more}


def test_kernels_connections_over_rdma_are_on_their_device(node: FakeMachine):
    node.put("/sys/class/infiniband/mlx5_0/device/net/ens1/mtu", "4200\n")
    shown = [
        qp("[ib_core]", type="GSI"),
        qp("all_reduce_perf", pid=700),
        qp("[ib_ipoib]"),
        qp("[nvme_rdma]", state="ERR"),
        qp("[nvme_rdma]"),
        qp("nvme_rdma"),
    ]
    node.programs["rdma -j resource show qp"] = json.dumps(shown)
    assert storage.rdma_users(node) == [("ens1", "the kernel's nvme_rdma over RDMA")]
    node.programs["rdma -j resource show qp"] = ""
    assert storage.rdma_users(node) == []
