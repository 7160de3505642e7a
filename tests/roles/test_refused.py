"""What each role refuses before it changes anything: refused.yml."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.mutations import files, plain
from tests.roles.role_cases import CASES, Case

REFUSED = yaml.safe_load(Path(__file__).with_name("refused.yml").read_text())


def kept(node: FakeMachine) -> dict[str, bytes | str]:
    return {path: text for path, text in files(node).items() if not path.startswith("/run/")}


@pytest.mark.parametrize(
    ("case", "given", "message"),
    [(CASES[name], *row) for name, rows in REFUSED.items() for row in rows],
    ids=[f"{name}-{row[1]}" for name, rows in REFUSED.items() for row in rows],
)
def test_wrong_value_is_refused_before_anything_changes(
    case: Case, given: dict[str, Any], message: str, tmp_path: Path
):
    node = case.node(tmp_path / "node")
    node.put("/etc/nccl.conf", "NCCL_DEBUG=INFO\n")  # of somebody
    before, state = kept(node), plain(node)
    with pytest.raises(Refused, match=message):
        converge(node, case.role, {**case.arguments, **given}, check=False)
    assert (kept(node), plain(node)) == (before, state)
