"""Module parameters on a real kernel: set, reloaded, and right after a boot."""

import re

import pytest

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
# One is set at once, the other when the module is loaded.
WANTED = {"mlx5_module_parameters": {"mlx5_core": {"debug_mask": 1, "prof_sel": 1}}}
PARAMETERS = "cd /sys/module/mlx5_core/parameters; cat debug_mask prof_sel"
BOOT = "cat /proc/sys/kernel/random/boot_id"
# From its initramfs, mlx5_core is loaded before the root file system and its modprobe.d are there.
EARLY = "echo mlx5_core >> /etc/initramfs-tools/modules; modprobe mlx5_core"


@pytest.fixture(autouse=True)
def _load_early(lab):
    lab.run(NODE, EARLY)


def parameters(lab):
    return lab.run(NODE, PARAMETERS).split()


def remote_tasks(said):
    """Return how many tasks of a run were the collection's modules, each one round trip."""
    return len(re.findall(r"^(?:ok|changed): \[\S+\] => \{.*\"pending\"", said, re.M))


def test_reboot_that_is_due_is_done_once(lab, play):
    variables = {**WANTED, "apply_reboot": "if-needed", "mlx5_initramfs": "always"}
    before = lab.run(NODE, BOOT)
    assert play.changes(variables)
    after = lab.run(NODE, BOOT)
    assert after != before
    assert parameters(lab) == ["1", "1"]
    assert not play.changes(variables)
    assert lab.run(NODE, BOOT) == after
    assert remote_tasks(play.said) == 1


def test_module_is_reloaded_where_that_is_allowed(lab, play):
    other = {"mlx5_module_parameters": {"mlx5_core": {"debug_mask": 1, "prof_sel": 0}}}
    more = {"mlx5_reload": "if-needed", "mlx5_initramfs": "never", "apply_reboot": "never"}
    assert play.changes({**other, **more})
    assert parameters(lab) == ["1", "0"]
