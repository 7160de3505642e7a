"""What each role refuses before it changes anything (refused.yml), and repairs (lost.yml)."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from tests.roles.fake import FakeMachine
from tests.roles.mutations import files, plain
from tests.roles.role_cases import Case, alter, carry_out

HERE = Path(__file__).parent
REFUSED = yaml.safe_load((HERE / "refused.yml").read_text())
LOST = yaml.safe_load((HERE / "lost.yml").read_text())


def kept(node: FakeMachine) -> dict[str, bytes | str]:
    return {path: text for path, text in files(node).items() if not path.startswith("/run/")}


def rows(table: dict[str, list[Any]], word: int) -> dict[str, Any]:
    found = [(name, row) for name, own in table.items() for row in own]
    ids = [f"{name}-{' '.join(row[word]) if word == 0 else row[word]}" for name, row in found]
    return {"argvalues": found, "ids": ids}


@pytest.mark.parametrize(("case", "row"), **rows(REFUSED, 1), indirect=["case"])
def test_wrong_value_is_refused_before_anything_changes(case: Case, row: list[Any], tmp_path: Path):
    usual: list[Any] = [{}, "Refused"]
    given, message, changes, cause = row + usual[len(row) - 2 :]
    node = case.node(tmp_path / "node")
    node.put("/etc/nccl.conf", "NCCL_DEBUG=INFO\n")  # of somebody
    alter(node, changes)
    before, state = kept(node), plain(node)
    with pytest.raises(NodeError, match=message) as said:
        converge(node, case.role, {**case.arguments, **given}, check=False)
    assert type(said.value).__name__ == cause
    assert (kept(node), plain(node)) == (before, state)


@pytest.mark.parametrize(("case", "row"), **rows(LOST, 0), indirect=["case"])
def test_loss_is_seen_alone_and_repaired(case: Case, row: list[Any], tmp_path: Path):
    changes, *found = row
    node = case.node(tmp_path / "node")
    carry_out(case, node)
    alter(node, changes)
    done = converge(node, case.role, case.arguments, check=False)["changes"]
    assert [[each["layer"], each["device"], each["setting"]] for each in done] == found
    assert not converge(node, case.role, case.arguments, check=False)["changed"]
