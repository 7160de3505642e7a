"""What a change of one rail does to the management NIC: real netplan, real systemd-networkd."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SPACES = ("--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
NEEDED = ("netplan", "networkctl", "dbus-daemon", "unshare")
pytestmark = pytest.mark.program


def seen(before: str, how: str) -> dict[str, Any]:
    """Return what systemd-networkd did when the rail got its MTU."""
    lacking = [name for name in NEEDED if not shutil.which(name, path=os.defpath + ":/usr/sbin")]
    if lacking or os.geteuid():
        pytest.skip(f"needs root, and {', '.join(lacking) or 'nothing else'}")
    done = subprocess.run(
        ["unshare", *SPACES, sys.executable, "-m", "tests.roles.networkd", before, how],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_rails_mtu_leaves_the_management_nic_alone():
    found = seen("", "role")
    assert found["reconfigured"] == ["ens1"]
    assert found["dhcp"] == []
    assert [each.split()[0] for each in found["interrupts"]] == ["ens1"]
    assert "MTUBytes=1400" in found["file"]
    assert found["is readable as the others"]
    assert found["again"] == [[], []]


def test_generating_in_place_takes_the_management_nics_lease():
    """It is what the test before would see, were there something to see."""
    found = seen("", "in place")
    assert found["reconfigured"] == ["eno1", "ens1"]
    assert any("lease lost" in line for line in found["dhcp"])


@pytest.mark.parametrize(
    "before",
    ["netplan generate", "touch /run/systemd/network/10-netplan-eno1.network"],
    ids=["all files were written anew", "the NIC's file has a new time"],
)
def test_files_are_left_to_a_boot_where_reading_them_takes_the_lease(before: str):
    """`systemctl daemon-reload` has netplan's generator write all of its files."""
    found = seen(before, "role")
    assert found["reconfigured"] == found["dhcp"] == found["interrupts"] == []
    assert "To read them now would interrupt eno1," in found["notes"][0]
    assert "MTUBytes=1400" in found["file"]
    assert found["again"] == [[], found["notes"]]
