"""What a run asks at its end, to know in which boot each node was asked everything."""

from types import SimpleNamespace
from typing import Any

import pytest

from rdmaprov.validate.complete import Completeness
from rdmaprov.validate.fixtures import SELECTION

BOOT = "b5cd7b0f-6b1f-4d0b-8a0e-0f6b1a2c3d4e"


class Hosts(dict[str, Any]):
    """Hosts that note what they are asked, and were up for a day."""

    def __init__(self) -> None:
        super().__init__(n1=None)
        self.asked: list[str] = []

    def run(self, commands: dict[str, str]) -> dict[str, Any]:
        self.asked += commands
        return {name: SimpleNamespace(stdout=f"{BOOT}\n86400.5 9\n") for name in commands}


def boots_after(status: int) -> tuple[list[str], dict[str, tuple[str, float]]]:
    hosts, stash = Hosts(), pytest.Stash()
    selection: Any = SimpleNamespace(hosts=hosts)
    stash[SELECTION] = selection
    session: Any = SimpleNamespace(config=SimpleNamespace(stash=stash))
    run = Completeness()
    run.due["n1"] = 1
    run.pytest_sessionfinish(session, status)
    return hosts.asked, run.boots


@pytest.mark.parametrize("status", [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED])
def test_run_that_ended_by_itself_asks_each_node_for_its_boot(status):
    assert boots_after(status) == (["n1"], {"n1": (BOOT, 86400.5)})


@pytest.mark.parametrize("status", [pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR])
def test_run_that_was_interrupted_asks_nobody(status):
    assert boots_after(status) == ([], {})
