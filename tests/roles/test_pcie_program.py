"""The program that sets the path between GPU and NIC again at a boot, without Ansible."""

import ast
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pcie import apply, boot
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.pcie_node import (
    BALANCING,
    DESCRIPTION,
    GPU_PORT,
    NIC,
    NIC_PORT,
    PROGRAM,
    RULE,
    SWITCH,
    UNIT,
    Node,
    made,
    run,
)
from tests.unit.helpers.shell import execute


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


def test_program_sets_again_what_a_boot_loses(node: Node):
    factory = Path(node.path(f"/sys/bus/pci/devices/{NIC}/config")).read_bytes()
    run(node)
    node.boot(factory)
    assert "MaxReadReq (running) is 512 bytes, expected 4096 bytes" in apply.main(node, DESCRIPTION)
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
    argv = [sys.executable, "-I", "-S", words[1], node.path(PROGRAM), description]
    done = execute(argv, cwd="/", timeout=60)
    assert (done.returncode, done.stderr) == (
        1,
        "rail 0: there is no network device no-such-device\n",
    )


def imports(module: ModuleType) -> set[str]:
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
def test_what_cannot_be_is_refused_before_anything_is_written(node, break_it, given, message):
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


@pytest.mark.parametrize(
    "mode", ["none [integrity] confidentiality", "none integrity [confidentiality]"]
)
def test_registers_of_a_locked_kernel_are_left_and_named_once(node, monkeypatch, mode):
    def refused(*_: object) -> None:
        raise NodeError("Operation not permitted")

    node.put("/sys/kernel/security/lockdown", mode + "\n")
    monkeypatch.setattr("plugins.module_utils.pci.Function._change", refused)
    done = run(node)
    (said,) = [each for each in done["warnings"] if "locked down" in each]
    assert f"{NIC} MaxReadReq 512 bytes" in said
    assert f"by 'pci=disable_acs_redir={NIC_PORT};{GPU_PORT}'" in said
    assert node.value(BALANCING) == "0"
    assert node.exists(UNIT)
    again = run(node)
    assert (again["changed"], again["warnings"]) == (False, done["warnings"])
    node.put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    with pytest.raises(NodeError, match="not permitted"):
        run(node)
