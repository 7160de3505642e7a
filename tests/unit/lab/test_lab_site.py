"""The lab's hosts file is an inventory for Ansible, and nobody else's files are touched."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from tests.unit.helpers.shell import execute

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab import site, ssh
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.layout import Layout, default_cache, default_root
from rdmaprov.lab.model import Lab, LabNode, LabRail, new_node
from rdmaprov.lab.patience import QUIET_PROBE_S, Speed


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "a lab's directory", tmp_path / "cache")


@pytest.fixture
def lab(tmp_path):
    rails = (LabRail(0, "52:54:00:00:00:01", "ens1"), LabRail(1, "52:54:00:00:00:02", "ens2"))
    return Lab(
        suite="bookworm",
        memory_mib=2048,
        accel=Accel.TCG,
        image="image",
        torch="torch",
        site=str(tmp_path / "site"),
        nodes=(LabNode("node1", 40001, "52:54:00:00:00:03", rails), new_node("node2", 40002, 2)),
    )


@pytest.mark.program
def test_ansible_reads_what_was_written(layout, lab):
    hosts = site.write(layout, lab)
    program = Path(sys.executable).with_name("ansible-inventory")
    done = execute([program, "-i", hosts.parent, "--host", "node1"], check=True)
    seen = json.loads(done.stdout)
    assert seen["ansible_port"] == 40001
    assert seen["fabric_kind"] == "roce"  # from the reference site, which was copied
    assert seen["fabric_rails"] == [
        {"netdev": "ens1", "address": "198.18.0.1/24"},
        {"netdev": "ens2", "address": "198.18.1.1/24"},
    ]


def test_connections_have_the_limits_of_the_measured_machine(layout, lab):
    layout.root.mkdir()
    Speed(0, 3 * QUIET_PROBE_S).save(layout.root)
    group = yaml.safe_load(site.write(layout, lab).read_text())["lab"]
    assert group["hosts"]["node1"]["ansible_ssh_timeout"] == 90
    assert 'ConnectTimeout="30"' in group["vars"]["ansible_ssh_common_args"]


def test_ssh_arguments_survive_a_directory_with_blanks_and_quotes(layout, lab):
    site.write(layout, lab)
    words = yaml.safe_load((Path(lab.site) / "hosts.yml").read_text())["lab"]["vars"]
    done = execute(["sh", "-c", f"ssh -G {words['ansible_ssh_common_args']} host"], check=True)
    assert "stricthostkeychecking true" in done.stdout
    assert f"userknownhostsfile {ssh.known_hosts(layout)}" in done.stdout.replace('"', "")


def test_foreign_hosts_file_is_refused_and_kept(layout, lab):
    hosts = Path(lab.site) / "hosts.yml"
    hosts.parent.mkdir()
    hosts.write_text("all: {}\n")
    with pytest.raises(UsageError, match="was not written by the lab"):
        site.write(layout, lab)
    site.remove(lab)
    assert hosts.read_text() == "all: {}\n"


def test_remove_takes_the_hosts_file_and_leaves_the_site(layout, lab):
    hosts = site.write(layout, lab)
    site.remove(lab)
    assert not hosts.exists()
    assert (hosts.parent / "group_vars/all.yml").exists()


def test_description_is_the_same_after_saving(tmp_path, lab):
    lab.save(tmp_path / "lab.json")
    assert Lab.load(tmp_path / "lab.json") == lab


def test_directory_with_foreign_files_is_refused(layout):
    layout.root.mkdir()
    (layout.root / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="not a lab's"):
        layout.claim()
    assert not layout.release()
    assert (layout.root / "thesis.tex").exists()


def test_claimed_directory_is_removed_with_all_in_it(layout):
    layout.claim()
    layout.node("node1").mkdir(parents=True)
    layout.claim()
    assert layout.release()
    assert not layout.root.exists()


def test_release_twice_is_no_error(layout):
    layout.claim()
    layout.release()
    assert not layout.release()


def test_second_command_is_refused_while_the_first_holds_the_lock(layout):
    with layout.lock(), pytest.raises(RdmaprovError, match="another command"), layout.lock():
        pass
    with layout.lock():
        assert not layout.root.exists()


def test_defaults_follow_the_xdg_directories(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert default_root() == tmp_path / "state/rdmaprov/lab"
    assert default_cache() == tmp_path / "cache/rdmaprov/lab"
