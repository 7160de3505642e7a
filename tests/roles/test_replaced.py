"""What a change replaces is kept on the node: the module's own machine, on a tree of a test."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from plugins.module_utils import replaced
from plugins.module_utils.machine import Machine, NodeError
from plugins.module_utils.replaced import MOST_CHANGES, STORE, Replaced, name_of

FILE = "/etc/security/limits.conf"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    (tmp_path / "etc/security").mkdir(parents=True)
    (tmp_path / FILE[1:]).write_bytes(b"caf\xe9\r\n")
    (tmp_path / FILE[1:]).chmod(0o640)
    return tmp_path


def changed(root: Path, change: str = "20261127-100000-apply", role: str = "limits") -> Machine:
    machine = Machine(str(root))
    machine.keep = Replaced(Machine(str(root)), change, role).keep
    return machine


def kept(root: Path, change: str = "20261127-100000-apply") -> list[dict[str, object]]:
    return json.loads((root / STORE[1:] / change / "index.json").read_text())["files"]  # type: ignore[no-any-return]


def content(root: Path, entry: dict[str, object]) -> bytes:
    return (root / STORE[1:] / "20261127-100000-apply" / str(entry["content"])).read_bytes()


def test_file_is_kept_byte_by_byte_with_owner_and_mode(node: Path):
    changed(node).write(FILE, "new\n")
    (entry,) = kept(node)
    assert content(node, entry) == b"caf\xe9\r\n"
    assert (entry["kind"], entry["mode"], entry["user"]) == ("file", 0o640, os.geteuid())
    assert (entry["role"], entry["path"]) == ("limits", FILE)


def test_copies_are_root_s_alone(node: Path):
    changed(node).write(FILE, "new\n")
    store = node / STORE[1:]
    modes = {stat.S_IMODE(path.stat().st_mode) for path in store.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (store, *store.iterdir())} == {0o700}


def test_first_content_stays_and_the_last_digest_counts(node: Path):
    machine = changed(node)
    machine.write(FILE, "one\n")
    machine.write(FILE, "two\n")
    first = kept(node)
    assert content(node, first[0]) == b"caf\xe9\r\n"
    machine.remove(FILE)
    assert [entry["after"] for entry in kept(node)] == [""]
    assert first[0]["after"] != ""


def test_what_was_absent_or_a_link_is_kept_as_that(node: Path):
    (node / "etc/link").symlink_to("security/limits.conf")
    machine = changed(node)
    machine.write("/etc/link", "x")
    machine.write("/etc/new", "x")
    machine.remove("/etc/never-there")
    link, absent = kept(node)
    assert (link["kind"], link["target"]) == ("link", "security/limits.conf")
    assert (absent["kind"], absent["path"]) == ("absent", "/etc/new")


def test_what_a_boot_makes_anew_is_not_kept(node: Path):
    changed(node).write("/run/rdmaprov/x", "x")
    assert not (node / STORE[1:]).exists()


def test_last_ten_changes_are_kept(node: Path):
    for number in range(MOST_CHANGES + 3):
        changed(node, f"run-{number:02}").write(FILE, f"{number}\n")
        os.utime(node / STORE[1:] / f"run-{number:02}", (number, number))
    names = sorted(path.name for path in (node / STORE[1:]).iterdir())
    assert names == [f"run-{number:02}" for number in range(3, MOST_CHANGES + 3)]


def test_copies_have_a_limit_and_the_oldest_go_first(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replaced, "MOST_BYTES", 3000)
    changed(node, "old").write("/etc/a", "a" * 2000)
    changed(node, "old").write("/etc/a", "b")
    changed(node, "mid").write("/etc/b", "b" * 2000)
    changed(node, "mid2").write("/etc/b", "c")
    changed(node, "new").write("/etc/c", "d" * 4000)
    changed(node, "newest").write("/etc/c", "e")
    assert kept(node, "newest")[0]["content"] is None
    total = sum(path.stat().st_size for path in (node / STORE[1:]).rglob("*") if path.is_file())
    assert total <= 3000 + 1000  # the lists themselves are small


def test_nothing_is_replaced_that_cannot_be_kept(node: Path):
    (node / "var").mkdir()
    (node / "var/lib").write_text("no directory\n")
    with pytest.raises(NodeError):
        changed(node).write(FILE, "new\n")
    assert (node / FILE[1:]).read_bytes() == b"caf\xe9\r\n"


@pytest.mark.parametrize("run", ["", "/runs/../..", "/x/a b", "/x/" + "a" * 200])
def test_name_of_a_run_makes_no_path(run: str):
    assert name_of({"holder": {"run": run}}).endswith("-ansible")
    assert name_of({"holder": {"run": "/w/runs/20261127-1-apply"}}) == "20261127-1-apply"
