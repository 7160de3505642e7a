"""Files of a plan: content, mode and owner; each alone is a change, and is repaired."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from plugins.module_utils.machine import own
from plugins.module_utils.plan import Plan, carry_out
from tests.roles.fake import FakeMachine

PATH = "/etc/rdmaprov.conf"
OTHER = 12345


def planned(machine: FakeMachine, mode: int = 0o600) -> Plan:
    plan = Plan(machine)
    plan.file(PATH, "text\n", mode)
    return plan


@pytest.fixture
def node(machine: FakeMachine) -> FakeMachine:
    carry_out(planned(machine), lambda: planned(machine))
    return machine


def repaired(node: FakeMachine, setting: str) -> bool:
    """Return whether a plan has this change and no other, and making it leaves the file right."""
    plan = planned(node)
    carry_out(plan, lambda: planned(node))
    settings = [change["setting"] for change in plan.changes()]
    return settings == [setting] and node.stands(PATH, "text\n", 0o600)


def test_file_of_ours_is_left_alone(node: FakeMachine):
    assert not planned(node).steps


def test_other_text_is_a_change(node: FakeMachine):
    node.write(PATH, "tex\n", 0o600)
    assert repaired(node, "content")


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o400, 0o4600])
def test_other_mode_is_a_change(node: FakeMachine, mode: int):
    Path(node.path(PATH)).chmod(mode)
    (change,) = planned(node).changes()
    assert change["seen"].startswith(f"mode {mode:o} of ")
    assert repaired(node, "access")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize(("user", "group"), [(OTHER, -1), (-1, OTHER)])
def test_other_owner_is_a_change(node: FakeMachine, user: int, group: int):
    os.chown(node.path(PATH), user, group)
    (change,) = planned(node).changes()
    assert str(OTHER) in change["seen"]
    assert repaired(node, "access")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_that_hands_its_group_on_does_not_keep_a_file_from_root(machine: FakeMachine):
    machine.put("/etc/other")
    directory = Path(machine.path("/etc"))
    os.chown(directory, -1, OTHER)
    directory.chmod(directory.stat().st_mode | stat.S_ISGID)
    carry_out(planned(machine), lambda: planned(machine))
    assert machine.access(PATH) == own(0o600)
    assert directory.stat().st_mode & stat.S_ISGID
