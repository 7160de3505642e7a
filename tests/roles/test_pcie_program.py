"""The program that sets the path between GPU and NIC again at a boot, without Ansible."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.pcie import apply, boot
from tests.roles.fake import FakeMachine
from tests.roles.pcie_files import DESCRIPTION, PROGRAM
from tests.roles.pcie_node import NIC, UNIT, Node, made, run


@pytest.fixture
def node(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Node:
    return made(machine, monkeypatch)


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
