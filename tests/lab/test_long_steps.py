"""A long step as a unit of a real systemd: an interrupted run, another controller, the next run.

That a step which is killed is a failure with the reason is in tests/cli/test_long_steps.py.
"""

import os
import signal
import time

import pytest
from tests.lab.fleet import Fleet
from tests.site_runs import WAIT_S

from rdmaprov.exit_codes import ExitCode

pytestmark = pytest.mark.lab

NODE = "node1"
TOUCHES = (NODE,)
WORDS = ("--roles", "mlx5", "--limit", NODE, "--reboot", "never")
# The initramfs is made for real, once nothing holds it up.
HOLD, HOOK = "/run/hold-the-initramfs", "/etc/initramfs-tools/hooks/hold"
MAKE_SLOW = f"""cat > {HOOK} << 'EOF'
#!/bin/sh
while [ "$1" != prereqs ] && [ -e {HOLD} ]; do sleep 1; done
EOF
chmod 755 {HOOK}; touch {HOLD}; modprobe mlx5_core"""
UNIT = "systemctl list-units --all --plain --no-legend 'rdmaprov-step-*'"
INSIDE = (
    "unmkinitramfs /boot/initrd.img-$(uname -r) /tmp/inside; "
    "grep -rh mlx5_core /tmp/inside --include=rdmaprov.conf"
)
LEFT = f"{UNIT}; ls /run/rdmaprov/steps 2> /dev/null; true"


def slow(lab, directory):
    lab.run(NODE, MAKE_SLOW)
    fleet = Fleet(lab, directory)
    with (fleet.site / "group_vars/all.yml").open("a") as file:
        file.write("mlx5_initramfs: always\n")
    return fleet


def until_it_is_at_work(lab, process):
    deadline = time.monotonic() + lab.limit_s(WAIT_S)
    while "active running" not in lab.run(NODE, UNIT):
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(1)


def test_long_step_outlives_its_controller_and_the_next_run_waits_for_it(lab, tmp_path):
    ours, theirs = slow(lab, tmp_path / "ours"), Fleet(lab, tmp_path / "theirs")
    first = ours.start("apply", *WORDS)
    until_it_is_at_work(lab, first)
    code, said = theirs.run("apply", "--roles", "limits", "--limit", NODE)
    assert code == ExitCode.FAILED, said
    assert "held by" in said
    assert "it changes the node now" in said
    os.killpg(first.pid, signal.SIGINT)
    code, said = ours.end(first)
    assert code == ExitCode.INTERRUPTED, said
    assert ours.results()["nodes"][NODE]["roles"] == {"mlx5": "half_done"}
    assert "active running" in lab.run(NODE, UNIT)
    second = ours.start_until("apply", "ansible.log", "Begin the next round", *WORDS)
    lab.run(NODE, f"rm {HOLD}")
    code, said = ours.end(second)
    assert code == ExitCode.PENDING, said  # the module's parameter waits for a reboot
    assert "left running on the node" in said
    assert ours.results()["nodes"][NODE]["roles"]["mlx5"] == "unchanged"
    assert lab.run(NODE, LEFT) == ""
    assert "prof_sel=1" in lab.run(NODE, INSIDE)
