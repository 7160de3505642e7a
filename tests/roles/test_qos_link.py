"""A link that the driver takes down for a setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.qos import link
from plugins.module_utils.qos.link import Link
from tests.roles.fake import FakeMachine

STATE = "/sys/class/infiniband/mlx5_0/ports/1/state"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMachine:
    for name, value in {"_SETTLE_S": 0.2, "_RETURN_S": 1.0, "_PAUSE_S": 0.01}.items():
        monkeypatch.setattr(link, name, value)
    made_up = FakeMachine(tmp_path)
    made_up.nic("ens1", "0000:18:00.0", rdma="mlx5_0")
    shows(made_up, "1", 2)
    return made_up


def shows(node: FakeMachine, carrier: str, changes: int, state: str = "4: ACTIVE") -> None:
    node.put("/sys/class/net/ens1/carrier", carrier + "\n")
    node.put("/sys/class/net/ens1/carrier_changes", f"{changes}\n")
    node.put(STATE, state + "\n")


def after(monkeypatch: pytest.MonkeyPatch, events: list[Callable[[], None]]) -> list[float]:
    """Have events happen, one at each pause; return the pauses."""
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if events:
            events.pop(0)()

    monkeypatch.setattr("plugins.module_utils.qos.link.time.sleep", sleep)
    return pauses


def test_link_that_goes_and_comes_back_is_waited_for(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    port = Link(node, "ens1")
    events = [
        lambda: shows(node, "0", 3, "1: DOWN"),
        lambda: shows(node, "1", 4, "2: INIT"),
        lambda: shows(node, "1", 4),
    ]
    pauses = after(monkeypatch, events)
    port.await_return("its PFC changed")
    assert len(pauses) == 3


def test_link_that_does_not_go_is_not_waited_for_long(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(link, "time", clock)
    Link(node, "ens1").await_return("its PFC changed")
    assert sum(pauses) == pytest.approx(link._SETTLE_S, abs=2 * link._PAUSE_S)


def test_link_that_stays_down_is_an_error(node: FakeMachine):
    port = Link(node, "ens1")
    shows(node, "0", 3, "1: DOWN")
    why = r"ens1: its link is still down 1 s after its PFC changed\. Run on"
    with pytest.raises(NodeError, match=why):
        port.await_return("its PFC changed")


def test_link_that_was_down_before_is_not_waited_for(
    node: FakeMachine, monkeypatch: pytest.MonkeyPatch
):
    shows(node, "0", 3, "1: DOWN")
    pauses = after(monkeypatch, [])
    Link(node, "ens1").await_return("its PFC changed")
    assert pauses == []
