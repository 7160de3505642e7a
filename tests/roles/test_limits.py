"""The limits: locked memory of logins and services, kernel settings; running and configured."""

import pytest
from plugins.module_utils import sysctl
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import limits
from tests.roles.fake import FakeMachine, layers
from tests.roles.limits_node import DROP_IN, LOGINS, SWAPPINESS, SYSCTL, Node, arguments
from tests.tables import cases


@pytest.fixture
def node(machine: FakeMachine) -> Node:
    return Node.made(machine.root)


def test_factory_node_gets_its_limits(node: Node):
    result = converge(node, limits, arguments(), check=False)
    assert layers(result) == [
        ("running", "kernel"),
        ("configured", SYSCTL),
        ("configured", LOGINS),
        ("configured", DROP_IN),
        ("running", "ssh.service"),
    ]
    assert result["changes"][-1]["seen"] == "8388608 soft, 8388608 hard"
    assert node.value(SWAPPINESS) == "1"
    assert "vm.swappiness = 1\n" in (node.read(SYSCTL) or "")
    assert (node.read(LOGINS) or "").splitlines()[1:] == [
        f"{who} {kind} memlock unlimited" for who in ["*", "root"] for kind in ("soft", "hard")
    ]
    assert (node.read(DROP_IN) or "").endswith("[Service]\nLimitMEMLOCK=infinity\n")
    assert "prlimit --pid=7 --memlock=unlimited:unlimited" in node.ran
    assert not [line for line in node.ran if "restart" in line]
    assert not converge(node, limits, arguments(), check=False)["changed"]


def test_number_of_kib_is_bytes_for_systemd_and_the_kernel(node: Node):
    converge(node, limits, arguments(memlock="4194304"), check=False)
    assert "* soft memlock 4194304\n" in (node.read(LOGINS) or "")
    assert "LimitMEMLOCK=4294967296\n" in (node.read(DROP_IN) or "")
    assert "4294967296 " in (node.read("/proc/7/limits") or "")


def test_service_that_ignores_the_drop_in_is_an_error(node: Node):
    converge(node, limits, arguments(), check=False)
    node.loaded = "65536"
    node.put(DROP_IN.replace("99-rdmaprov-memlock", "zz"))
    node._on_disk = lambda: "65536"  # type: ignore[method-assign]
    refused = r"ssh.service: LimitMEMLOCK is 65536 soft, .*remove it there"
    with pytest.raises(Refused, match=refused):
        converge(node, limits, arguments(), check=False)


def test_undone_settings_leave_no_file(node: Node):
    converge(node, limits, arguments(), check=False)
    none = arguments(memlock_users=[], memlock_services=[], sysctl={})
    converge(node, limits, none, check=False)
    assert not any(node.exists(path) for path in (SYSCTL, LOGINS, DROP_IN))
    assert not converge(node, limits, none, check=False)["changed"]


def test_value_that_the_kernel_refuses_is_not_written_for_a_boot(node: Node):
    def refuse(name: str, value: str) -> None:
        raise NodeError(f"{name} rejects {value}: Invalid argument")

    node.set = refuse  # type: ignore[method-assign]
    with pytest.raises(NodeError, match="swappiness rejects 900"):
        converge(node, limits, arguments(sysctl={"vm.swappiness": 900}), check=False)
    assert not node.exists(SYSCTL)


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


CONF, CACHE = "/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf"
SAID = "jobs get the memlock limit of the shell that submits them"


@pytest.mark.parametrize(("text", "warns"), cases(__file__, "settings"))
def test_settings(machine: FakeMachine, text, warns):
    machine.put(CONF, text)
    assert [SAID in each for each in limits.warnings(machine)] == [True] * warns


GOOD = "PropagateResourceLimitsExcept=MEMLOCK\n"


@pytest.mark.parametrize(
    ("files", "warned_of"),
    cases(__file__, "file_of_slurm_that_counts_is_warned_of"),
    ids=["none", "includes one that is gone", "included", "includes itself", "fetched"],
)
def test_file_of_slurm_that_counts_is_warned_of(machine: FakeMachine, files, warned_of):
    for path, text in files.items():
        machine.put(path, text)
    assert [each.partition(":")[0] for each in limits.warnings(machine)] == warned_of


def test_message_has_only_the_beginning_of_a_command_that_lists_many_units():
    words = ["false", *(f"unit{number}" for number in range(30))]
    with pytest.raises(CommandFailed, match="unit3 unit4 …: exit code 1: "):
        Machine().run(words)
