"""The path between GPU and NIC: running, described for a boot, and set again by the program."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from plugins.module_utils import pci
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pcie import apply, boot
from plugins.module_utils.pcie.interrupts import processors
from plugins.module_utils.plan import NotYet, Refused
from plugins.module_utils.roles import pcie
from tests.roles.fake import FakeMachine
from tests.roles.pcie_node import (
    BALANCING,
    GOVERNOR,
    GPU,
    GPU_PORT,
    LINK,
    NIC,
    NIC_PORT,
    SWITCH,
    UNIT,
    Node,
    arguments,
    made,
    run,
    said,
)

ROOT = Path(__file__).parents[2]
DESCRIPTION = "/etc/rdmaprov/pcie.json"
RULE = "/etc/udev/rules.d/99-rdmaprov-pcie.rules"
PROGRAM = "/usr/local/lib/rdmaprov/pcie"


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


RUNNING = [
    ("running", "kernel", "numa_balancing"),
    ("running", "policy0", "frequency governor"),
    ("running", "policy4", "frequency governor"),
    ("running", f"ens1 {NIC}", "MaxReadReq"),
    ("running", f"ens1 {NIC}", "processors of interrupt 40"),
    ("running", NIC_PORT, "ACS redirect"),
    ("running", GPU_PORT, "ACS redirect"),
]
CONFIGURED = [
    ("configured", PROGRAM, "program"),
    ("configured", DESCRIPTION, "content"),
    ("configured", UNIT, "content"),
    ("configured", "rdmaprov-pcie.service", "start at boot"),
    ("configured", RULE, "content"),
]


def test_factory_node_gets_it_all_and_a_second_run_changes_nothing(node: Node):
    result = run(node)
    assert said(result) == RUNNING + CONFIGURED
    assert (node.value(BALANCING), node.value(GOVERNOR)) == ("0", "performance")
    assert (node.affinity(40), node.affinity(41)) == ("4-7", "5")
    assert (node.redirect(NIC_PORT), node.redirect(GPU_PORT)) == (0x11, 0x11)
    assert result["changes"][5]["seen"] == "ReqRedir CmpltRedir"
    assert result["reboot"] == result["notes"] == []
    assert not run(node)["changed"]


def test_result_does_not_tell_ansible_that_the_task_was_skipped(node: Node):
    assert "skipped" not in run(node)


def test_port_at_the_root_keeps_its_redirects(node: Node):
    run(node)
    assert node.redirect("0000:17:01.0") == 0x1D


def test_check_mode_changes_nothing(node: Node):
    assert run(node, check=True)["changed"]
    assert (node.value(BALANCING), node.affinity(40)) == ("1", "0-7")
    assert not any(node.exists(path) for path in (DESCRIPTION, UNIT, RULE, PROGRAM))


@pytest.mark.parametrize(
    ("lose", "changed"),
    [
        (lambda node: node.put(BALANCING, "1\n"), RUNNING[0]),
        (lambda node: node.put(GOVERNOR, "powersave\n"), RUNNING[1]),
        (lambda node: node.interrupt(40, "4-8"), RUNNING[4]),
        (lambda node: node.put(f"{PROGRAM}/node/pci.py", "# older\n"), CONFIGURED[0]),
        (lambda node: node.remove(f"{PROGRAM}/node/__init__.py"), CONFIGURED[0]),
        (lambda node: node.remove(DESCRIPTION), CONFIGURED[1]),
        (lambda node: node.put(UNIT, "[Unit]\n"), CONFIGURED[2]),
        (lambda node: node.remove(LINK), CONFIGURED[3]),
        (lambda node: node.remove(RULE), CONFIGURED[4]),
    ],
)
def test_each_layer_is_seen_alone(node: Node, lose: Callable[[Node], None], changed: Any):
    run(node)
    lose(node)
    assert said(run(node)) == [changed]
    assert not run(node)["changed"]


def test_program_sets_again_what_a_boot_loses(node: Node):
    factory = Path(node.path(f"/sys/bus/pci/devices/{NIC}/config")).read_bytes()
    run(node)
    node.boot(factory)
    line = apply.main(node, DESCRIPTION)
    assert "MaxReadReq (running) is 512 bytes, expected 4096 bytes" in line
    assert not run(node)["changed"]
    assert apply.main(node, DESCRIPTION) == ""


def test_program_sets_what_it_can_beside_a_rail_that_is_missing(node: Node):
    factory = Path(node.path(f"/sys/bus/pci/devices/{NIC}/config")).read_bytes()
    run(node)
    node.boot(factory)
    known = json.loads(node.read(DESCRIPTION) or "")
    node.put(DESCRIPTION, json.dumps({**known, "rails": [{"netdev": "dead"}, *known["rails"]]}))
    with pytest.raises(NodeError, match="rail 0: there is no network device dead"):
        apply.main(node, DESCRIPTION)
    node.put(DESCRIPTION, json.dumps(known))
    assert apply.main(node, DESCRIPTION) == ""


def test_program_without_a_description_says_so(node: Node):
    with pytest.raises(NodeError, match=r"there is no /etc/rdmaprov/pcie.json: run the role pcie"):
        apply.main(node, DESCRIPTION)


def test_program_on_the_node_runs_without_ansible_and_without_the_checkout(node: Node):
    run(node)
    unit = node.read(UNIT) or ""
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    words = start.partition("=")[2].split()
    assert words[1:] == ["-I", "-B", PROGRAM, DESCRIPTION]
    description = Path(node.path("/description.json"))
    known = json.loads(node.read(DESCRIPTION) or "")
    description.write_text(json.dumps({**known, "rails": [{"netdev": "no-such-device"}]}))
    done = subprocess.run(
        [sys.executable, "-I", "-S", words[1], node.path(PROGRAM), str(description)],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        "rail 0: there is no network device no-such-device\n",
    )


def imports(module: ModuleType) -> set[str]:
    """Return the modules that a module imports, by their whole names."""
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(start, module.__package__)
            inside = [f"{base}.{each.name}" for each in node.names]
            found |= {each if each in sys.modules else base for each in inside}
    return found


@pytest.mark.parametrize("module", boot.MODULES, ids=lambda module: module.__name__)
def test_modules_of_the_program_import_only_one_another(module: ModuleType):
    named = {
        name for name in imports(module) if name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert named <= {each.__name__ for each in boot.MODULES}


def test_description_has_rails_only_by_what_finds_them(node: Node):
    run(node)
    assert json.loads(node.read(DESCRIPTION) or "")["rails"] == [{"netdev": "ens1"}]


def test_what_the_node_does_not_have_is_skipped_with_a_reason(machine: FakeMachine):
    machine.put("/usr/bin/python3")
    machine.put("/sys/devices/system/node/node0/cpulist", "0\n")
    machine.nic("ens1")
    machine.programs = {"systemctl": ""}
    given = arguments(iommu="passthrough")
    assert converge(machine, pcie, given, check=True)["notes"] == [
        "NUMA balancing: this kernel has none (/proc/sys/kernel/numa_balancing)",
        "governor: the kernel does not set frequencies (/sys/devices/system/cpu/cpufreq)",
        "ens1: it is not on PCI",
        "ACS: no GPU is below one PCIe switch with a rail, another GPU or an NVMe drive "
        "(/sys/bus/pci/devices)",
        "IOMMU: the machine shows none (/sys/class/iommu, /sys/firmware/acpi/tables)",
    ]


def test_function_that_is_not_express_is_skipped(node: Node):
    Path(node.path(f"/sys/bus/pci/devices/{NIC}/config")).write_bytes(bytes(256))
    result = run(node)
    assert result["notes"] == [f"ens1 {NIC}: MaxReadReq: the function is not PCI Express"]
    node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/vendor", "0x1af4\n")
    skipped = run(node)["notes"]
    assert skipped == [f"ens1 {NIC}: MaxReadReq: virtio does not use it"]
    node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/physfn/vendor")
    skipped = run(node)["notes"]
    assert skipped == [
        f"ens1 {NIC}: MaxReadReq: a virtual function uses that of its physical function"
    ]


def test_guest_knows_its_virtual_function_by_number(node: Node):
    node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/vendor", "0x15b3\n")
    node.put(f"/sys/devices/{SWITCH}/{NIC_PORT}/{NIC}/device", "0x101c\n")
    assert run(node)["notes"] == [
        f"ens1 {NIC}: MaxReadReq: a virtual function uses that of its physical function"
    ]


def test_virtual_function_of_a_gpu_of_the_host_is_none(node: Node):
    assert [each.address for each in pci.gpus(node)] == [GPU]
    node.put(f"/sys/bus/pci/devices/{GPU}/physfn/vendor", "0x10de\n")
    assert pci.gpus(node) == []


@pytest.mark.parametrize(
    ("nodes", "cpulist", "reason"),
    [
        (["node0"], "0-7", "the machine has one NUMA node (/sys/devices/system/node)"),
        (["node0", "node1"], "", "its NUMA node 1 has no processors"),
    ],
)
def test_interrupts_stay_where_there_is_no_choice(
    node: Node, nodes: list[str], cpulist: str, reason: str
):
    for name in ("node0", "node1"):
        node.remove(f"/sys/devices/system/node/{name}/cpulist")
        Path(node.path(f"/sys/devices/system/node/{name}")).rmdir()
    for name in nodes:
        node.put(f"/sys/devices/system/node/{name}/cpulist", cpulist + "\n")
    assert run(node)["notes"] == [f"ens1 {NIC}: interrupts: {reason}"]
    assert node.affinity(40) == "0-7"


def test_nothing_is_touched_that_the_site_keeps(node: Node):
    result = run(node, acs_redirect="keep", irq_affinity="keep", cpu_governor="keep")
    assert said(result)[:2] == [RUNNING[0], RUNNING[3]]
    assert said(result)[2:] == CONFIGURED
    assert (node.redirect(GPU_PORT), node.affinity(40)) == (0x1D, "0-7")


def test_numa_balancing_between_tiers_is_on(node: Node):
    node.put(BALANCING, "2\n")
    assert said(run(node, numa_balancing="on", check=True))[0] != RUNNING[0]
    assert said(run(node, check=True))[0] == RUNNING[0]


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


def test_lists_of_processors():
    assert processors("0-2,8\n") == {0, 1, 2, 8}
    assert processors("") == set()
