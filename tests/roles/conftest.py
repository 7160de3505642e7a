"""What the tests of roles' modules run on."""

from pathlib import Path

import pytest
from tests.roles.fake import FakeMachine


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing wait for daemons that are made up."""
    monkeypatch.setattr("plugins.module_utils.links.networkd._START_S", 0)


@pytest.fixture(autouse=True)
def _python_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the Python of the tests for root's; whose it is depends on where they run."""
    monkeypatch.setattr("plugins.module_utils.shipped.weak_spot", lambda _path: "")


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "node")
