"""The path between GPU and NIC: what is refused, what cannot be told, what does not hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import NotYet, Refused
from tests.roles.fake import FakeMachine
from tests.roles.pcie_files import DESCRIPTION, PROGRAM, RULE
from tests.roles.pcie_node import BALANCING, GPU_PORT, NIC, NIC_PORT, SWITCH, UNIT, Node, made, run


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


@pytest.mark.parametrize(
    ("break_it", "given", "message"),
    [
        (
            lambda node: node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/numa_node", "-1\n"),
            {},
            "does not say on which NUMA node it is .* write pcie_irq_affinity: keep",
        ),
        (
            lambda node: node.put("/sys/bus/pci/drivers/vfio-pci/0000:41:00.0/vendor"),
            {},
            "0000:41:00.0 is passed through to a virtual machine .*pcie_acs_redirect: keep",
        ),
        (
            lambda _: None,
            {"cpu_governor": "schedutil"},
            "schedutil is not one of performance, powersave",
        ),
        (
            lambda node: node.put("/proc/cmdline", "root=/dev/sda1 pci=realloc,pcie_bus_perf\n"),
            {},
            "MaxReadReq must not be above MaxPayload, 256: .*_bytes: 256",
        ),
        (
            lambda node: node.put("/etc/sysctl.d/90-numa.conf", "\nkernel.numa_balancing = 1\n"),
            {},
            "90-numa.conf:2: sets kernel.numa_balancing to 1, expected 0",
        ),
        (
            lambda node: node.remove(BALANCING),
            {"numa_balancing": "on"},
            "this kernel has none .*write pcie_numa_balancing: off",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    node: Node, break_it: Callable[[Node], None], given: dict[str, Any], message: str
):
    break_it(node)
    with pytest.raises(Refused, match=message):
        run(node, **given)
    assert node.affinity(40) == "0-7"
    assert not any(node.exists(path) for path in (DESCRIPTION, UNIT, RULE, PROGRAM))


def test_passed_through_device_is_no_matter_where_no_redirect_is_on(node: Node):
    run(node)
    node.put("/sys/bus/pci/drivers/vfio-pci/0000:41:00.0/vendor")
    assert not run(node)["changed"]


def test_irqbalance_with_a_policy_is_named(node: Node):
    node.put("/proc/77/comm", "irqbalance\n")
    node.put("/proc/77/cmdline", "/usr/sbin/irqbalance\0--foreground\0")
    assert run(node, check=True)["changed"]
    node.put("/proc/77/cmdline", "/usr/sbin/irqbalance\0--policyscript=/etc/irq.sh\0")
    with pytest.raises(Refused, match=r"runs with --policyscript=/etc/irq.sh \(process 77\)"):
        run(node)


@pytest.mark.parametrize(
    ("lose", "message"),
    [
        (
            lambda node: node.remove(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/numa_node"),
            "its NUMA node is unknown",
        ),
        (lambda node: node.interrupt(40, "all"), "'all' is not a list of processors"),
        (
            lambda node: node.remove(f"/sys/devices/{SWITCH}/{GPU_PORT}/config"),
            f"{GPU_PORT}/config cannot be read",
        ),
    ],
)
def test_what_cannot_be_told_is_an_error(node: Node, lose: Callable[[Node], None], message: str):
    lose(node)
    with pytest.raises(NodeError, match=message):
        run(node)


def test_setting_that_does_not_hold_is_an_error(node: Node):
    node.set = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(NodeError, match="set, but not in effect: kernel: numa_balancing"):
        run(node)


def test_rail_that_is_not_there_may_come(node: Node):
    with pytest.raises(NotYet, match="there is no network device ens7"):
        run(node, rails=[{"netdev": "ens7"}])


@pytest.mark.parametrize(
    "mode", ["none [integrity] confidentiality", "none integrity [confidentiality]"]
)
def test_registers_of_a_locked_kernel_are_left_and_named_once(
    node: Node, monkeypatch: pytest.MonkeyPatch, mode: str
):
    def refused(*_: object) -> None:
        raise NodeError("Operation not permitted")

    node.put("/sys/kernel/security/lockdown", mode + "\n")
    monkeypatch.setattr("plugins.module_utils.pci.Function._change", refused)
    done = run(node)
    (said,) = [each for each in done["warnings"] if "locked down" in each]
    assert f"{NIC} MaxReadReq 512 bytes" in said
    assert f"give the kernel 'pci=disable_acs_redir={NIC_PORT};{GPU_PORT}'" in said
    assert node.value(BALANCING) == "0"
    assert node.exists(UNIT)
    again = run(node)
    assert (again["changed"], again["warnings"]) == (False, done["warnings"])
    node.put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    with pytest.raises(NodeError, match="not permitted"):
        run(node)
