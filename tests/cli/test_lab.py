"""`rdmaprov lab` answers a wrong call with what is wrong and what to write, in two lines."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
from tests.program import call, ended_here

from rdmaprov.exit_codes import ExitCode
from rdmaprov.lab.accel import Accel
from rdmaprov.lab.model import Lab, new_node
from rdmaprov.lab.patience import QUIET_PROBE_S, Speed


@pytest.fixture
def lab(tmp_path, capfd):
    places = ("--dir", tmp_path / "lab", "--cache", tmp_path / "cache")
    return partial(ended_here, capfd, "lab", *places)


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (["ls | wc -l"], ["ls | wc -l"]),
        (["printf", "%s|", "a b", "$HOME", "x;y"], ["printf '%s|' 'a b' '$HOME' 'x;y'"]),
    ],
)
def test_words_reach_the_node_as_they_are(lab, monkeypatch, words, sent):
    started: list[str] = []
    monkeypatch.setattr("rdmaprov.lab.cluster.Cluster.require_running", lambda *_: None)
    monkeypatch.setattr(os, "execv", lambda _program, argv: started.extend(argv))
    assert lab("ssh", "node1", "--", *words)[0] == ExitCode.OK
    assert started[started.index("node1") + 1 :] == sent


@pytest.mark.parametrize(
    "words",
    [["ssh", "node1"], ["console", "node1"], ["reboot", "node1"], ["reset", "n"], ["heal", "n"]],
)
def test_verb_without_a_lab_is_refused(lab, words):
    code, _, err = lab(*words)
    assert code == ExitCode.FAILED
    assert err.splitlines() == ["error: there is no lab", "hint:  Run: rdmaprov lab up"]


def test_status_without_a_lab_has_no_nodes(lab):
    assert json.loads(lab("status", "--json")[1]) == {"nodes": [], "saved": []}
    assert lab("status")[:2] == (ExitCode.OK, "There is no lab. Run: rdmaprov lab up\n")


def test_status_has_the_patience_and_what_it_follows_from(lab, tmp_path):
    nodes = tuple(new_node(f"node{number}", 1, 2) for number in (1, 2))
    (tmp_path / "lab").mkdir()
    Lab("bookworm", 2048, Accel.TCG, "image", "torch", "site", nodes).save(
        tmp_path / "lab/lab.json"
    )
    assert json.loads(lab("status", "--json")[1])["patience"] == 1
    Speed(0, 2.5 * QUIET_PROBE_S, 7).save(tmp_path / "lab")
    said = json.loads(lab("status", "--json")[1])
    assert said["patience"] == pytest.approx(2.5)
    assert said["speed"] == {"measured_at": 0, "probe_s": 2.5 * QUIET_PROBE_S, "boot_s": 7}


def test_down_without_a_lab_is_no_error(lab):
    assert lab("down") == (ExitCode.OK, "", "there is no lab\n")


def test_directory_with_foreign_files_is_left_alone(lab, tmp_path):
    mine = tmp_path / "lab" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    code, _, err = lab("up")
    assert code == ExitCode.USAGE
    assert "holds files that are not a lab's" in err
    assert lab("down")[0] == ExitCode.OK
    assert mine.read_text() == "mine"


def test_damaged_description_is_named(lab, tmp_path):
    state = tmp_path / "lab" / "lab.json"
    state.parent.mkdir()
    (state.parent / ".rdmaprov-lab").touch()
    state.write_text('{"nodes": 3}')
    code, _, err = lab("status")
    assert code == ExitCode.FAILED
    assert f"{state} is damaged" in err
    assert lab("down")[0] == ExitCode.OK
    assert not state.exists()


def test_missing_packages_are_named_together(tmp_path):
    """Only Python is on the PATH: everything the lab runs is missing."""
    words = ("lab", "--dir", tmp_path / "lab", "up")
    done = call(*words, cwd=tmp_path, PATH="", HOME=str(tmp_path))
    assert done.returncode == ExitCode.USAGE
    assert "the lab needs qemu-system-x86_64, qemu-img, ssh, ssh-keygen" in done.stderr
    assert "apt-get install openssh-client qemu-system-x86 qemu-utils" in done.stderr


def test_full_disk_is_refused_before_anything_is_made(lab, tmp_path, monkeypatch):
    """What the file system says of itself stands in for a full one."""
    usage = os.statvfs_result((4096, 4096, 256, 256, 256, 100, 100, 100, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: usage)
    code, _, err = lab("up", "--accel", "tcg")
    assert code == ExitCode.FAILED
    assert f"{tmp_path / 'lab'} has 1 MiB free, and 4096 are needed" in err
    assert "--dir DIRECTORY" in err
    assert not (tmp_path / "lab" / "lab.json").exists()


def test_fault_list_has_a_sentence_for_each(lab):
    _, out, _ = lab("fault", "--list")
    names = {path.stem for path in (Path(__file__).parents[2] / "lab/faults").glob("*.sh")}
    assert names <= set(out.split())
