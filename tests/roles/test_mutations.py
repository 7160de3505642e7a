"""The plan of a role sees every change to what the role made: `apply --drifted` relies on it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import Machine
from plugins.module_utils.probed import PROTOCOL
from plugins.module_utils.roles import ORDER, pcie
from plugins.module_utils.survey import survey
from tests.roles import hugepages_node, mutations
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import CASES, Case, carry_out

from rdmaprov.drift.fleet import judge_answer
from rdmaprov.probe.connection import Answer

# What a role leaves on a node that is no setting of it.
NO_SETTING = {
    "/run/rdmaprov/": "marks of what was not read again, gone with the boot",
    "/var/lib/rdmaprov/": "what a role remembers, to be found out anew or to be forgotten",
}


@pytest.fixture(params=[*CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(pcie, "architecture", lambda: "x86_64")
    monkeypatch.setattr("plugins.module_utils.peermem.dmabuf.dmabuf_obstacle", lambda _: "")
    return CASES[request.param]


def is_right(case: Case, node: FakeMachine) -> bool:
    """Return whether the probe takes the node for one that is as described."""
    name = ORDER[0]
    found = survey(node, {name: case.arguments}, lambda _, *given: case.role.plan(*given))
    answer = json.dumps({"protocol": PROTOCOL, **found, "boot_id": "67b5"})
    return not judge_answer(Answer(0, answer, ""), [name]).why


def test_each_change_is_seen(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    node = case.node(tmp_path / "node")
    written: set[str] = set()
    real_write = Machine.write

    def write(self: Machine, name: str, text: str, mode: int = 0o644) -> None:
        written.add(name)
        real_write(self, name, text, mode)

    monkeypatch.setattr(Machine, "write", write)
    before = mutations.files(node), mutations.plain(node)
    carry_out(case, node)
    if isinstance(node, hugepages_node.Node):
        node.boot()  # pages of 1 GiB come with one
    assert is_right(case, node)
    found = [
        *mutations.of_files(node, before[0], written),
        *mutations.of_memory(node, before[1], "node"),
    ]
    ignored = [*NO_SETTING, *case.ignored]
    found = [each for each in found if not any(re.search(one, each.name) for one in ignored)]
    missed = []
    for each in found:
        each.do()
        if is_right(case, node):
            missed.append(each.name)
        each.undo()
    assert is_right(case, node)  # so each was undone, and was seen alone
    assert len(found) >= case.least
    assert "\n".join(missed) == ""


def test_check_mode_changes_nothing(case: Case, tmp_path: Path):
    node = case.node(tmp_path / "node")
    before = mutations.files(node), mutations.plain(node)
    assert converge(node, case.role, case.arguments, check=True)["changed"]
    files = mutations.files(node)
    files.pop("/run/rdmaprov/rdma_cm.lock", None)  # who reads the modes of RDMA CM holds it
    assert (files, mutations.plain(node)) == before


def test_each_role_is_altered():
    assert {case.role.__name__.rpartition(".")[2] for case in CASES.values()} >= {*ORDER}
