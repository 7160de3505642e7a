"""What apply wrote on virtual machines is taken back: trees are as before."""

from __future__ import annotations

import pytest
from tests.lab.fleet import NODES, Fleet

pytestmark = pytest.mark.lab

ROLES = "mtu,hugepages,limits,mlx5,nccl,roce_qos"
# Content, mode, owner and targets; and which units systemd would start.
TREE = (
    "find /etc/modprobe.d /etc/netplan /etc/network /etc/security /etc/sysctl.d /etc/systemd"
    " /etc/udev /etc/default /etc/nccl.conf /usr/local/lib -printf '%p %m %U:%G %l ' "
    "\\( -type f -exec sha256sum {} \\; -o -printf '\\n' \\) 2>/dev/null | sort;"
    " systemctl list-unit-files --state=enabled,masked --no-legend"
)


def test_tree_is_as_before_after_a_boot_and_forward_again(lab, tmp_path):
    fleet = Fleet(lab, tmp_path)
    before = [lab.run(node, TREE) for node in NODES]
    fleet.run("apply", "--roles", ROLES, "--reboot", "never")
    run = max(path.name for path in (tmp_path / "runs").glob("*-apply"))
    applied = [lab.run(node, TREE) for node in NODES]
    assert applied != before
    code, said = fleet.run("revert", run)
    assert code == 5, said
    assert [lab.run(node, TREE) for node in NODES] == before
    code, said = fleet.run("revert", run)
    assert f"{len(NODES)} nodes: {len(NODES)} unchanged" in said
    fleet.run("apply", "--roles", ROLES, "--reboot", "never")
    assert [lab.run(node, TREE) for node in NODES] == applied
