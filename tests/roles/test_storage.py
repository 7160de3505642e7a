"""Storage that a node depends on: by which servers, and over which devices."""

import json
from pathlib import Path

import pytest
from plugins.module_utils import storage
from plugins.module_utils.machine import CommandFailed
from tests.roles.fake import FakeMachine

# Peers are the last column; the third port is ssh's.
SS = """\
0      0              10.9.0.7:51422          10.9.0.20:8003
0      0              10.9.0.7:1023           10.9.0.21:1191
0      36             10.9.0.7:22             10.0.0.9:50000
0      0      [::ffff:10.9.0.7]:40000  [::ffff:10.9.0.22]:14000
0      0           [fd00::7]:40001          [fd00::23]:8005
"""


@pytest.fixture
def node(tmp_path: Path) -> FakeMachine:
    made_up = FakeMachine(tmp_path)
    made_up.programs["ss -Htn state established"] = SS
    made_up.programs["getent ahosts nas1"] = "10.9.0.30     STREAM nas1\n10.9.0.30     DGRAM\n"
    made_up.programs["getent ahosts gone"] = CommandFailed(["getent"], 2, "")
    return made_up


@pytest.mark.parametrize(
    ("mount", "servers"),
    [
        ("10.1.0.5:/home /data nfs4 rw,vers=4.2,addr=10.1.0.5 0 0", ["10.1.0.5"]),
        ("//nas1/share /data cifs rw,addr=10.1.0.5 0 0", ["10.1.0.5"]),
        ("10.1.0.5:6789,10.1.0.6:6789:/ /data ceph rw,acl 0 0", ["10.1.0.5", "10.1.0.6"]),
        ("[fd00::5]:6789,[fd00::6]:6789:/ /data ceph rw 0 0", ["fd00::5", "fd00::6"]),
        (
            "a@8f2e.fs=/ /data ceph rw,mon_addr=10.1.0.5:3300/10.1.0.6:3300 0 0",
            ["10.1.0.5", "10.1.0.6"],
        ),
        ("10.1.0.5@tcp:10.1.0.6@o2ib1:/fs /data lustre rw 0 0", ["10.1.0.5", "10.1.0.6"]),
        ("10.1.0.5@o2ib,10.1.0.6@o2ib:/fs /data lustre rw 0 0", ["10.1.0.5", "10.1.0.6"]),
        ("nas1:/vol /data fuse.glusterfs rw 0 0", ["10.9.0.30"]),
        ("gone:/vol /data fuse.glusterfs rw 0 0", []),
        (
            "beegfs_nodev /data beegfs rw,cfgFile=/etc/beegfs/client.conf 0 0",
            ["10.9.0.20", "fd00::23"],
        ),
        ("gpfs0 /data gpfs rw 0 0", ["10.9.0.21"]),
        ("nas1/default /data wekafs rw 0 0", ["10.9.0.30", "10.9.0.22"]),
        ("/dev/sda1 /data ext4 rw 0 0", []),
    ],
)
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
