"""The scripts of a node's image and of the shapes are clean POSIX sh, and a rail is made right."""

from __future__ import annotations

import subprocess
from configparser import ConfigParser

import pytest
from tests.unit.helpers.shell import shellcheck

from rdmaprov.lab import shapes
from rdmaprov.resources import data_dir

IMAGE = data_dir("lab") / "image"
SCRIPTS = ("setup.sh", "files/usr/lib/rdmaprov-lab/identity", "files/usr/lib/rdmaprov-lab/rail")


def test_scripts_have_no_shellcheck_finding(tmp_path):
    own = [each.name for each in shapes.catalogue().values() if each.factory]
    for name in own:
        (tmp_path / name).write_text("set -eu\n" + shapes.find(name).script())
    assert own
    assert shellcheck(*map(IMAGE.joinpath, SCRIPTS), *map(tmp_path.joinpath, own)) == ""


def test_finding_is_printed_with_its_script(tmp_path):
    (tmp_path / "bad").write_text("set -eu\nrm $1\n")
    assert f"{tmp_path}/bad line 2" in shellcheck(IMAGE / SCRIPTS[0], tmp_path / "bad")


class Node:
    """A node's files, and programs that do to them what the kernel would; the rail's script."""

    def __init__(self, directory):
        self.directory = directory
        self.device = directory / "sys/class/infiniband/mlx5_1"
        self.netdev = directory / "sys/class/net/ens2"
        firmware = directory / "sys/firmware/qemu_fw_cfg/by_name/opt/org.rdmaprov/rails"
        for each in (self.device.parent, firmware, directory / "run", directory / "etc"):
            each.mkdir(parents=True)
        (firmware / "raw").write_text(f"52:54:00:00:00:01 {MAC}")
        (directory / "sys/kernel/standin_mlx5e").mkdir(parents=True)
        (directory / "etc/rdmaprov-lab").mkdir()
        (directory / "etc/rdmaprov-lab/driver").write_text("inbox\n")
        self._program("modprobe", "exit 0")
        self.interfere("")

    def appear(self, mtu):
        """Have the netdev there."""
        self.netdev.mkdir(parents=True)
        (self.netdev / "address").write_text(f"{MAC}\n")
        self.set_mtu(mtu)

    def set_mtu(self, mtu):
        (self.netdev / "mtu").write_text(f"{mtu}\n")

    def interfere(self, command):
        """Have a command run once, right after Soft-RoCE has read the MTU."""
        (self.directory / "meanwhile").write_text(command)
        self._program("rdma", RDMA.format(root=self.directory))

    def run(self):
        """Return how the script of the rail ended."""
        text = (IMAGE / "files/usr/lib/rdmaprov-lab/rail").read_text()
        for top in ("/sys/", "/etc/", "/run/"):
            text = text.replace(top, f"{self.directory}{top}")
        path = {"PATH": f"{self.directory}/bin:/usr/bin:/bin"}
        return subprocess.run(
            ["sh", "-c", text, "rail", "ens2"], env=path, capture_output=True, check=False
        ).returncode

    def rdma_mtu(self):
        """Return the MTU that Soft-RoCE read for the device that is there."""
        return int((self.device / "mtu").read_text())

    def _program(self, name, script):
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nset -eu\n{script}\n")
        path.chmod(0o755)


MAC = "52:54:00:00:00:02"
RDMA = """
device={root}/sys/class/infiniband/$3
case $2 in
add)
    mkdir "$device"
    cp {root}/sys/class/net/$7/mtu "$device/mtu"
    mv {root}/meanwhile {root}/now 2> /dev/null && . {root}/now
    ;;
delete) rm -r "$device" ;;
esac
exit 0
"""


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_rail_that_comes_late_is_there_at_a_later_run(node):
    assert node.run() != 0
    assert not node.device.exists()
    node.appear(4200)
    assert (node.run(), node.rdma_mtu()) == (0, 4200)


def test_rail_has_the_mtu_that_came_while_its_device_was_made(node):
    node.appear(1500)
    node.interfere(f"echo 4200 > {node.netdev}/mtu")
    assert (node.run(), node.rdma_mtu()) == (0, 4200)


def test_rail_whose_unit_ended_before_it_looked_has_the_mtu_after_the_next_run(node):
    node.appear(1500)
    node.interfere(f"echo 4200 > {node.netdev}/mtu; kill $PPID; exit 1")
    assert node.run() != 0
    assert node.rdma_mtu() == 1500
    assert (node.run(), node.rdma_mtu()) == (0, 4200)


def test_rail_that_is_right_is_left_alone(node):
    node.appear(4200)
    assert node.run() == 0
    (node.device / "in use").touch()
    node.set_mtu(1500)  # Soft-RoCE hears of it by itself
    assert node.run() == 0
    assert (node.device / "in use").exists()


def test_netdev_that_was_made_anew_has_a_device_of_its_mtu(node):
    node.appear(4200)
    assert node.run() == 0
    (node.device / "mtu").unlink()
    node.device.rmdir()
    node.set_mtu(1500)
    assert (node.run(), node.rdma_mtu()) == (0, 1500)


@pytest.mark.parametrize("name", ["rdmaprov-lab-rail@", "rdmaprov-lab-identity"])
def test_unit_of_a_stand_in_is_started_until_it_ends_well(name):
    unit = ConfigParser(strict=False, interpolation=None)
    unit.read(IMAGE / f"files/usr/lib/systemd/system/{name}.service")
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert (unit["Service"]["Restart"], unit["Service"]["RestartSec"]) == ("on-failure", "1")
