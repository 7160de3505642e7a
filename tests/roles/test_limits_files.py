"""Files on the node that would undo or contradict its limits: later ones, PAM's, Slurm's."""

from __future__ import annotations

import pytest
from plugins.module_utils import sysctl
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import limits
from tests.roles.fake import FakeMachine
from tests.roles.limits_node import SWAPPINESS, SYSCTL, Node, arguments


@pytest.fixture
def node(machine: FakeMachine) -> Node:
    made = Node(machine.root)  # type: ignore[arg-type]
    made.prepare()
    return made


def test_later_file_that_undoes_a_setting_at_boot_is_refused(node: Node):
    node.put("/usr/lib/sysctl.d/zz-tuned.conf", "# tuned\n-vm.swappiness=60\n")
    with pytest.raises(Refused, match=r"^/usr/lib/sysctl.d/zz-tuned.conf:2: sets vm.swappiness"):
        converge(node, limits, arguments(), check=False)
    node.put("/etc/sysctl.d/zz-tuned.conf", "")  # hides it
    assert converge(node, limits, arguments(), check=False)["changed"]


def test_earlier_file_does_not_count(node: Node):
    node.put("/etc/sysctl.conf", "vm.swappiness = 60\n")
    node.link("/etc/sysctl.d/99-sysctl.conf", "/etc/sysctl.conf")
    assert sysctl.at_boot(node)[SWAPPINESS].value == "60"
    converge(node, limits, arguments(), check=False)
    assert sysctl.at_boot(node)[SWAPPINESS].file == SYSCTL


def test_name_of_a_setting_may_have_dots_within():
    path = "/proc/sys/net/ipv4/conf/eth0.100/forwarding"
    assert sysctl.path_of("net.ipv4.conf.eth0/100.forwarding") == path
    assert sysctl.path_of("net/ipv4/conf/eth0.100/forwarding") == path


def test_logins_without_pam_limits_are_refused(node: Node):
    node.put("/etc/pam.d/common-session", "session required pam_unix.so\n# session x pam_limits.so")
    with pytest.raises(Refused, match=r"/etc/pam.d/sshd does not load pam_limits"):
        converge(node, limits, arguments(), check=True)


def test_stack_of_red_hat_is_followed(node: Node):
    node.put("/etc/pam.d/sshd", "session    include      password-auth\n")
    node.put("/etc/pam.d/password-auth", "session     required      pam_limits.so\n")
    assert converge(node, limits, arguments(), check=True)["changed"]


def test_later_line_for_the_same_logins_is_refused(node: Node):
    other = "/etc/security/limits.d/zz-baseline.conf"
    node.put(other, "alice - memlock 64\n* - memlock 64\n")
    with pytest.raises(Refused, match=rf"{other}:2: memlock of \* is 64, expected unlimited"):
        converge(node, limits, arguments(), check=False)
    node.put(other, "* - memlock infinity\n")
    assert converge(node, limits, arguments(), check=False)["changed"]


def test_slurm_conf_is_read_where_slurmd_is_installed(node: Node):
    node.put("/etc/slurm/slurm.conf", "ClusterName=a\n")
    assert converge(node, limits, arguments(), check=True)["warnings"] == []
    node.programs["systemctl show"] = lambda _: (
        "MainPID=0\nLimitMEMLOCK=infinity\nLimitMEMLOCKSoft=infinity\nId=slurmd.service\n"
        "DropInPaths=\nLoadState=loaded\nNeedDaemonReload=no\n"
    )
    said = converge(node, limits, arguments(), check=True)["warnings"]
    assert len(said) == 1
    assert "PropagateResourceLimitsExcept=MEMLOCK" in said[0]
    assert node.read("/etc/slurm/slurm.conf") == "ClusterName=a\n"
