"""The lab removes what it made and nothing else, and one command at a time changes it."""

from __future__ import annotations

import pytest

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.lab.layout import Layout, default_cache, default_root


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "lab", tmp_path / "cache")


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
