"""Persistence mode: what a site asks for is on now and at boot, and nothing else is touched."""

from __future__ import annotations

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import peermem
from plugins.module_utils.roles.peermem import DROP_IN, UNIT
from tests.roles.fake import FakeMachine
from tests.roles.peermem_node import arguments, with_gpu

ON = arguments(mode="off", gpu_persistence="on")
# Ubuntu's, of nvidia-compute-utils.
STOCK = "/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose"
SET = f"""\
# Written by rdmaprov (peermem); changes here are lost.
[Service]
ExecStart=
ExecStart={STOCK.replace(" --no-persistence-mode", "")}
"""
_SHOWN = "ExecStart={{ path={0} ; argv[]={1} ; ignore_errors=no ; pid=0 }}\n"


def stock(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, **changed: str) -> FakeMachine:
    """Return Ubuntu's node: two GPUs, and a unit that turns persistence mode off."""
    node = with_gpu(machine, monkeypatch)
    unit = {"LoadState": "loaded", "UnitFileState": "static", "NeedDaemonReload": "no", **changed}
    state = {"mode": "Disabled", "read": ""}

    def show(_: list[str]) -> str:
        lines = [line for line in state["read"].splitlines() if line.startswith("ExecStart=/")]
        command = lines[-1].partition("=")[2] if lines else unit.get("command", STOCK)
        shown = "".join(f"{key}={value}\n" for key, value in unit.items() if key != "command")
        return shown + _SHOWN.format(command.split()[0], command)

    def reload(_: list[str]) -> str:
        state["read"] = node.read(DROP_IN) or ""
        return ""

    def turn_on(_: list[str]) -> str:
        state["mode"] = "Enabled"
        return ""

    def enable(_: list[str]) -> str:
        unit["UnitFileState"] = "enabled"
        return ""

    node.programs |= {
        "systemctl show": show,
        "systemctl daemon-reload": reload,
        "systemctl enable": enable,
        "nvidia-smi -pm 1": turn_on,
        "nvidia-smi --query-gpu": lambda _: f"{state['mode']}\n" * 2,
    }
    return node


def test_stock_unit_is_started_without_its_option(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    assert converge(node, peermem, ON, check=True)["changed"]
    assert not node.exists(DROP_IN)
    changes = converge(node, peermem, ON, check=False)["changes"]
    assert [(each["layer"], each["device"], each["seen"]) for each in changes] == [
        ("configured", UNIT, STOCK),
        ("running", "GPUs", "Disabled, Disabled"),
    ]
    assert node.read(DROP_IN) == SET
    assert not converge(node, peermem, ON, check=False)["changed"]
    assert node.ran.count("nvidia-smi -pm 1") == 1


def test_drop_in_that_was_edited_is_written_again(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    converge(node, peermem, ON, check=False)
    node.put(DROP_IN, SET + "Nice=5\n")
    assert converge(node, peermem, ON, check=False)["changed"]
    assert node.read(DROP_IN) == SET


def test_unit_that_is_right_gets_no_drop_in(machine, monkeypatch):
    """RHEL's starts the daemon with persistence mode, and is disabled until somebody enables it."""
    right = {"UnitFileState": "disabled", "command": "/usr/bin/nvidia-persistenced --verbose"}
    node = stock(machine, monkeypatch, **right)
    changes = converge(node, peermem, ON, check=False)["changes"]
    assert [each["wanted"] for each in changes] == ["enabled", "Enabled"]
    assert not node.exists(DROP_IN)


def test_keep_takes_our_drop_in_away_and_asks_nothing(machine, monkeypatch):
    node = stock(machine, monkeypatch)
    converge(node, peermem, ON, check=False)
    node.ran.clear()
    assert converge(node, peermem, {**ON, "gpu_persistence": "keep"}, check=False)["changed"]
    assert not node.exists(DROP_IN)
    assert node.ran == ["systemctl daemon-reload"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"LoadState": "not-found"},
            r"is not-found: install the driver's package .*, or write keep",
        ),
        ({"LoadState": "masked"}, "is masked: .*unmask it"),
        ({"UnitFileState": "masked-runtime"}, "it is masked-runtime, so no boot starts it"),
        ({"command": "/bin/sh -c '$X'"}, "its ExecStart is not understood"),
    ],
)
def test_what_cannot_be_turned_on_is_refused(machine, monkeypatch, changed, says):
    node = stock(machine, monkeypatch, **changed)
    with pytest.raises(Refused, match=says):
        converge(node, peermem, ON, check=False)
    assert not node.exists(DROP_IN)


def test_node_without_a_gpu_has_nothing_to_do(machine: FakeMachine, monkeypatch):
    node = stock(machine, monkeypatch)
    node.put("/sys/bus/pci/devices/0000:1b:00.0/vendor", "0x1002\n")
    assert not converge(node, peermem, ON, check=False)["changed"]
    assert node.ran == []
