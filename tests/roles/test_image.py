"""An image that is built in a chroot: what a boot reads is set, nothing of what runs is touched."""

from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest
from plugins.module_utils import image
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import NotYet
from plugins.module_utils.roles import mlx5
from tests.roles import limits_node, mlx5_node, mutations, torch_node
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import Case

LIBRARY = "/usr/lib/systemd/system"


class Asked(FakeMachine):
    """A made-up node, which runs what another one is asked for."""

    node: FakeMachine

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 0) -> str:
        self.ran.append(" ".join(argv))
        own = [each for each in argv if each not in ("-k", mlx5_node.KERNEL)]
        return self.node.run(own if argv[0] == "modinfo" else argv, stdin, timeout_s)


class Made(image.Image, Asked):
    """A made-up node's files as those of an image."""

    @classmethod
    def of(cls, node: FakeMachine) -> Self:
        made = cls(Path(node.root))
        made.node, made.programs = node, node.programs
        return made


def of_the_kernel(node: FakeMachine) -> dict[str, Any]:
    files = mutations.files(node)
    return {name: text for name, text in files.items() if name.startswith(("/proc/", "/sys/"))}


def test_no_role_touches_or_asks_what_runs(case: Case, tmp_path: Path):
    node = case.node(tmp_path / "node")
    made, before = Made.of(node), of_the_kernel(node)
    with suppress(NodeError):  # as each that reads of the hardware where its NICs are
        image._set(case.role, made, case.arguments)
    assert of_the_kernel(node) == before
    ran = {line.split()[0].rpartition("/")[2] for line in made.ran}
    assert ran <= {*image._OF_FILES, "systemctl", "python3"}
    assert not [line for line in made.ran if "--now" in line or "reload" in line or "show" in line]


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with ssh and a kernel; the machine that runs has other values."""
    made = mlx5_node.with_mlx5(limits_node.Node.made(machine.root))
    made.put(f"{LIBRARY}/ssh.service")
    made.link("/etc/systemd/system/sshd.service", f"{LIBRARY}/ssh.service")
    made.put("/proc/sys/kernel/osrelease", "5.14.0-of-who-builds")
    return made


def test_image_gets_what_its_boot_reads(node: FakeMachine):
    given = {
        "mlx5": mlx5_node.arguments(firmware_version="28.42.1000"),
        "limits": limits_node.arguments(),
    }
    made, before = Made.of(node), of_the_kernel(node)
    assert image.configure(made, given) == {
        "verdict": "configured",
        "why": "mlx5 (1 set), limits (3 set)",
    }
    assert "options mlx5_core" in (node.read(mlx5.OWN) or "")
    for path in (limits_node.SYSCTL, limits_node.LOGINS, limits_node.DROP_IN):
        assert node.read(path), path
    assert of_the_kernel(node) == before
    assert {line.split()[0] for line in made.ran} == {"modinfo", "unmkinitramfs"}
    assert made.ran[0] == f"modinfo -k {mlx5_node.KERNEL} -p mlx5_core"
    again = image.configure(made, given)
    assert again["why"] == "mlx5 (0 set), limits (0 set)"


def test_role_of_the_hardware_is_left_and_the_next_one_is_set(node: FakeMachine):
    given = {"mtu": {"rails": [{"netdev": "ens1"}]}, "limits": limits_node.arguments()}
    said = image.configure(Made.of(node), given)
    assert said["verdict"] == "configured"
    left = "left to the boot: mtu (/sys/class/net/ens1 is known where the image runs)"
    assert said["why"] == f"limits (3 set), {left}"


def test_image_without_a_kernel_leaves_its_modules_to_the_boot(node: FakeMachine):
    node.remove(f"/lib/modules/{mlx5_node.KERNEL}/modules.dep")
    said = image.configure(Made.of(node), {"mlx5": mlx5_node.arguments()})
    assert said["why"] == "left to the boot: mlx5 (the image has no kernel (/lib/modules))"
    assert node.read(mlx5.OWN) is None


def test_interpreter_that_only_the_node_has_is_nothing_to_set(node: FakeMachine):
    given = torch_node.arguments(kind="interpreter", python="/opt/of-the-node/bin/python3")
    assert (
        image.configure(Made.of(node), {"torch_runtime": given})["why"] == "torch_runtime (0 set)"
    )


def test_role_that_is_refused_is_the_last(node: FakeMachine):
    given = {"mlx5": mlx5_node.arguments(), "limits": limits_node.arguments(memlock="64")}
    said = image.configure(Made.of(node), given)
    assert said["verdict"] == "failed"
    assert said["why"].startswith("limits: limits_memlock: 64 KiB is too little")
    assert node.read(limits_node.SYSCTL) is None


@pytest.mark.parametrize("unit", ["slurmd", "masked", "alias"])
def test_unit_that_is_not_there_gets_no_file(node: FakeMachine, unit: str):
    Path(node.path("/etc/systemd/system/masked.service")).symlink_to("/dev/null")
    node.put(f"{LIBRARY}/masked.service")
    Path(node.path(f"{LIBRARY}/alias.service")).symlink_to("masked.service")
    given = {"limits": limits_node.arguments(memlock_services=[unit])}
    assert image.configure(Made.of(node), given)["verdict"] == "configured"
    assert not list(Path(node.path("/etc/systemd/system")).glob("*.service.d"))


@pytest.mark.parametrize(
    "argv",
    [["ip", "link"], ["systemctl", "restart", "ssh"], ["systemctl", "disable", "--now", "x"]],
)
def test_program_that_asks_what_runs_is_not_started(node: FakeMachine, argv: list[str]):
    with pytest.raises(NotYet, match="asks the machine that runs"):
        Made.of(node).run(argv)
    assert node.ran == []
