"""Scripts of a node's image are clean and make rails right; bytecode of archives is kept."""

import subprocess
import sys
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import shellcheck

from rdmaprov.lab import shapes
from rdmaprov.resources import data_dir

IMAGE = data_dir("lab") / "image"
SCRIPTS = [IMAGE / "setup.sh", *IMAGE.glob("files/usr/lib/rdmaprov-lab/*")]


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
        text = (IMAGE / "files/usr/lib/rdmaprov-lab/rail").read_text()
        for top in ("/sys/", "/etc/", "/run/"):
            text = text.replace(top, f"{self.directory}{top}")
        path = {"PATH": f"{self.directory}/bin:/usr/bin:/bin"}
        return subprocess.run(
            ["sh", "-c", text, "rail", "ens2"], env=path, capture_output=True, check=False
        ).returncode

    def rdma_mtu(self):
        return int((self.device / "mtu").read_text())

    def _program(self, name, script):
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nset -eu\n{script}\n")
        path.chmod(0o755)


MAC = "52:54:00:00:00:02"
RDMA = cases(__file__, "rdma")


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


PLACE = Path(__file__).parents[3] / "lab/image/files/usr/lib/python3/dist-packages"
HOOK = "rdmaprov_lab_bytecode"
ROOT = "import os; os.geteuid = lambda: 0"
MODULE = "def fail():\n    raise ValueError('from the source')\n"


@pytest.fixture
def run(tmp_path):
    """Return a function that imports a module of an archive behind the hook.

    It returns the words printed, each once, as zipimport may compile a source twice; what went to
    standard error; and the files kept.
    """
    kept = tmp_path / "kept"

    def run_(source, code, archive="first.zip", before=ROOT):
        with zipfile.ZipFile(tmp_path / archive, "w") as written:
            written.writestr("sent.py", source)
        program = (
            f"import sys; sys.path.insert(0, {str(PLACE)!r}); {before}\n"
            f"import {HOOK} as hook; hook._DIRECTORY = {str(kept)!r}\n"
            "def compiled(path, source, compile_=hook._compile_source):\n"
            "    print('compiled'); return compile_(path, source)\n"
            "hook._compile_source = compiled\n"
            f"sys.path.insert(0, {str(tmp_path / archive)!r}); import sent\n{code}"
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False
        )
        return list(dict.fromkeys(done.stdout.split())), done.stderr, sorted(kept.glob("*"))

    return run_


def test_source_is_compiled_once_and_names_the_archive_that_it_came_in(run):
    first, _, files = run(MODULE, "")
    second, error, _ = run(MODULE, "sent.fail()", archive="second.zip")
    assert (first, second, len(files)) == (["compiled"], [], 1)
    assert "second.zip/sent.py" in error
    assert "ValueError: from the source" in error
    assert "first.zip" not in error


def test_other_source_is_compiled(run):
    run("value = 1\n", "")
    printed, _, files = run("value = 2\n", "print(sent.value)")
    assert (printed, len(files)) == (["compiled", "2"], 2)


@pytest.mark.parametrize("rest", [b"", b"\x00", b"no bytecode"])
def test_what_is_no_bytecode_is_compiled_again(run, rest):
    *_, (file,) = run("value = 1\n", "")
    file.write_bytes(rest)
    printed, error, _ = run("value = 1\n", "print(sent.value)")
    assert (printed, error) == (["compiled", "1"], "")


def test_root_alone_keeps_anything(run):
    before = "import os; os.geteuid = lambda: 1000"
    printed, error, files = run("value = 1\n", "print(sent.value)", before=before)
    assert (printed, error, files) == (["compiled", "1"], "", [])


def test_full_disk_is_no_error(run):
    full = f"{ROOT}; os.replace = lambda *_: (_ for _ in ()).throw(OSError(28, 'no space'))"
    printed, error, _ = run("value = 1\n", "print(sent.value)", before=full)
    assert (printed, error) == (["compiled", "1"], "")


def test_python_loads_it_at_each_start():
    assert (PLACE / f"{HOOK}.pth").read_text() == f"import {HOOK}\n"
