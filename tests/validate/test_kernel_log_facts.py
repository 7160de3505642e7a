"""What the checks of the kernel's log make of nodes: repaired, not root, without a journal."""

import json

import pytest
from tests.tables import cases
from tests.validate.runner import ends

JOURNAL = "/.answers/journalctl/-k_-b_-o_short-monotonic_--no-hostname_--no-pager_-q"
QUERY = "/.answers/nvidia-smi/-q"
UNCONTAINED = "95, pid=7, name=python3, Uncontained"


@pytest.fixture
def changed(changed):
    """Return a node whose driver, of before 565, does not say whether a GPU was repaired."""
    changed.replace_all(QUERY, "    GPU Recovery Action                   : None\n", "")
    return changed


@pytest.fixture
def found(judged):
    return lambda: ends(judged("test_kernel_log.py"))


@pytest.mark.parametrize(("asks_for", "state"), [("None", "passed"), ("GPU Reset", "failed")])
def test_driver_says_whether_its_gpu_was_repaired(found, changed, asks_for, state):
    """From driver 565 on, the recovery action is None again after the reset that an Xid wants."""
    changed.replace(JOURNAL, "43, pid=7, name=python3", UNCONTAINED)
    mode = "    Persistence Mode                      : Enabled\n"
    line = f"    GPU Recovery Action                   : {asks_for}\n"
    changed.replace_all(QUERY, mode, mode + line)
    assert [each for each, _ in found()] == [state, "passed"]


@pytest.mark.parametrize(("device", "state"), [("19", "passed"), ("2a", "failed")])
def test_note_of_root_ends_an_xid_where_the_driver_does_not_tell(found, changed, device, state):
    note = f"\n[   30.100000] rdmaprov: 0000:{device}:00.0 was repaired"
    changed.replace(JOURNAL, "43, pid=7, name=python3", UNCONTAINED + note)
    assert [each for each, _ in found()] == [state, "passed"]


@pytest.mark.parametrize(("own", "words"), cases(__file__, "own"))
def test_line_is_new_since_the_last_complete_validate_or_known_to_it_and_red(
    found, fleet, changed, tmp_path, monkeypatch, own, words
):
    monkeypatch.setenv("RDMAPROV_RUNS", str(tmp_path))
    partial = {"state": "failed", "complete": False, "boot_id": "0b1e", "uptime_s": 7000.0}
    whole = {"state": "failed", "complete": True, "boot_id": "0b1e", **own}
    for name, node in (("2-validate", whole), ("3-validate", partial)):
        (tmp_path / name).mkdir()
        said = {"schema": 1, "site": str(fleet.site), "seconds": 100.0, "nodes": {"gpu1": node}}
        (tmp_path / name / "results.json").write_text(json.dumps(said))
    changed.replace(JOURNAL, "43, pid=7, name=python3", UNCONTAINED)
    (state, said), _ = found()
    assert state == "failed"
    assert words in said
    assert ("since run" in said or "to run" in said) is bool(words)


def dmesg(changed, out, err=""):
    changed.put(JOURNAL)
    changed.put("/.bin/dmesg", f"#!/bin/sh\nprintf '{err}' >&2\nprintf '{out}'\n")
    changed.executable("/.bin/dmesg")


def test_node_without_a_journal_is_asked_with_dmesg(found, changed):
    boot = r"[    0.000000] Linux version 6.8.0\n"
    dmesg(changed, boot + r"[    9.1] NVRM: Xid (PCI:0000:41:00): 79, pid=7\n")
    (state, said), (other, _) = found()
    assert (state, other) == ("failed", "passed")
    assert "gpu1 GPU 1: " in said


@pytest.mark.parametrize(
    ("out", "err", "why"),
    [
        ("", "dmesg: read kernel buffer failed: Operation not permitted", "not permitted"),
        ("[ 900.1] usb 1-1: new", "", "does not begin with the boot"),
    ],
)
def test_log_that_is_not_read_is_not_verified(found, changed, out, err, why):
    dmesg(changed, out, err)
    seen = found()
    assert [state for state, _ in seen] == ["skipped"] * 2
    assert all("not verified" in said and why in said for _, said in seen)


def test_middle_of_a_large_log_is_left_out(suite, found, changed, monkeypatch):
    name = "_COMMAND"
    short = getattr(suite["test_kernel_log.py"], name).replace("4000000", "500")
    monkeypatch.setattr(suite["test_kernel_log.py"], name, short)
    note = "[ 9.1] kernel: NVRM: Xid (PCI:0000:41:00): 13, pid=7, name=a\n"
    head = "[ 0.1] kernel: Linux version 6.8.0\n"
    changed.put(JOURNAL, head + note * 40)
    assert {state for state, _ in found()} == {"skipped"}
    changed.put(JOURNAL, head + note * 40 + note.replace("13", "79"))
    assert [state for state, _ in found()] == ["failed", "skipped"]
