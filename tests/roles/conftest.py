"""What the tests of roles' modules run on."""

from pathlib import Path

import pytest
from plugins.module_utils.machine import Machine
from plugins.module_utils.roles import pcie
from plugins.module_utils.torch import proof
from tests.roles.fake import FakeMachine
from tests.roles.role_cases import CASES, Case
from tests.roles.torch_wheels import Real


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plugins.module_utils.links.networkd._START_S", 0)


@pytest.fixture(autouse=True)
def _python_of_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the Python of the tests for root's; whose it is depends on where they run."""
    monkeypatch.setattr("plugins.module_utils.shipped.weak_spot", lambda _path: "")


@pytest.fixture
def machine(tmp_path: Path) -> FakeMachine:
    return FakeMachine(tmp_path / "node")


@pytest.fixture(params=[*CASES])
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Return each role on a made-up node, which is like no machine that the tests run on."""
    monkeypatch.setattr(pcie, "architecture", lambda: "x86_64")
    monkeypatch.setattr("plugins.module_utils.peermem.dmabuf.dmabuf_obstacle", lambda _: "")
    return CASES[request.param]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    paths: set[str] = set()
    write = Machine.write

    def noted(self: Machine, path: str, text: str, mode: int = 0o644) -> None:
        paths.add(path)
        write(self, path, text, mode)

    monkeypatch.setattr(Machine, "write", noted)
    return paths


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Real:
    monkeypatch.setattr(proof, "PROOF", str(tmp_path / "proof.json"))
    return Real()
