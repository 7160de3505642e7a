"""Module parameters in the initramfs: made anew where it carries the module, and proven."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.roles import mlx5
from tests.roles.fake import FakeMachine
from tests.roles.mlx5_node import IMAGE, KERNEL, arguments, builds, with_mlx5


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    """Provide a node with mlx5_core loaded."""
    return with_mlx5(machine)


def carry(machine: FakeMachine, module: str, conf: str | None = None) -> None:
    """Have an initramfs that carries a module."""
    machine.put(IMAGE, json.dumps({"modules": ["ext4", module], "conf": conf}))


def test_initramfs_that_carries_the_module_is_made_anew_once(node: FakeMachine):
    carry(node, "mlx5_core")
    result = converge(node, mlx5, arguments(), check=False)
    assert (IMAGE, "none", "options mlx5_core debug_mask=1") in [
        (each["device"], each["seen"], each["wanted"]) for each in result["changes"]
    ]
    assert len(builds(node)) == 1
    node.ran.clear()
    assert not converge(node, mlx5, arguments(), check=False)["changed"]
    assert not [line for line in node.ran if line.startswith("unmkinitramfs")]


def test_run_cut_before_the_initramfs_was_made_is_repaired(node: FakeMachine):
    carry(node, "mlx5_core")
    node.programs["update-initramfs"] = CommandFailed(["update-initramfs"], 1, "No space left")
    with pytest.raises(CommandFailed, match="No space left"):
        converge(node, mlx5, arguments(), check=False)
    (change,) = converge(node, mlx5, arguments(), check=True)["changes"]
    assert (change["device"], change["layer"]) == (IMAGE, "configured")


def test_initramfs_that_somebody_put_back_is_seen(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(), check=False)
    carry(node, "mlx5_core", conf="options mlx5_core debug_mask=3\n")
    os.utime(node.path(IMAGE), (1, 1))
    (change,) = converge(node, mlx5, arguments(), check=False)["changes"]
    assert change["seen"] == "options mlx5_core debug_mask=3"
    assert len(builds(node)) == 2


def test_parameter_that_is_wanted_no_more_leaves_the_initramfs_too(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(), check=False)
    result = converge(node, mlx5, arguments({}), check=False)
    assert [each["device"] for each in result["changes"]] == [mlx5.OWN, IMAGE]
    assert not node.exists(mlx5.OWN)
    assert json.loads(node.read(IMAGE) or "")["conf"] is None
    assert not converge(node, mlx5, arguments({}), check=False)["changed"]


def test_initramfs_is_made_or_left_as_the_site_says(node: FakeMachine):
    carry(node, "mlx5_core")
    converge(node, mlx5, arguments(initramfs="never"), check=False)
    assert not builds(node)
    node.put(IMAGE, json.dumps({"modules": ["ext4"], "conf": None}))
    converge(node, mlx5, arguments(initramfs="always"), check=False)
    assert len(builds(node)) == 1


def test_initramfs_that_does_not_take_it_is_an_error(node: FakeMachine):
    carry(node, "mlx5_core")
    node.programs["update-initramfs"] = ""
    with pytest.raises(NodeError, match=rf"not in effect: .*{IMAGE}: module options"):
        converge(node, mlx5, arguments(), check=False)


def test_dracut_does_not_write_over_the_old_file(node: FakeMachine):
    old, image = IMAGE, f"/boot/initramfs-{KERNEL}.img"
    node.remove(old)
    node.put(image, json.dumps({"modules": ["mlx5_core"], "conf": None}))
    node.programs.pop("update-initramfs")

    def dracut(argv: list[str]) -> str:
        made = json.dumps({"modules": ["mlx5_core"], "conf": node.read(mlx5.OWN)})
        Path(node.path(argv[2])).write_text(made)
        return ""

    node.programs["dracut"] = dracut
    converge(node, mlx5, arguments(), check=False)
    assert f"dracut --force {image}.rdmaprov {KERNEL}" in node.ran
    assert not node.exists(image + ".rdmaprov")
    assert mlx5.OWN in (node.read("/etc/dracut.conf.d/rdmaprov.conf") or "")
