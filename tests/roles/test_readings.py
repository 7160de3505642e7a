"""No plan reads its node past Machine: it would be absent from a record."""

from __future__ import annotations

import ast
from pathlib import Path

import plugins.module_utils
import pytest

# Files whose code reads the node past Machine, and why that is no hole in a record.
PAST_MACHINE = {
    "machine.py": "Machine itself",
    "busy.py": "asked: users of devices",
    "kmod/initramfs.py": "asked: inside an initramfs; the rebuild is a step",
    "links/netplan.py": "asked: netplan get, netplan takes",
    "lock.py": "no plan's",
    "ofed/download.py": "a step",
    "ofed/vendor_repository.py": "a step",
    "pci.py": "asked: each register; a write is a step",
    "roles/pcie.py": "asked: architecture",
    "qos/marking.py": "asked: each value of rdma_cm",
    "shipped.py": "asked: Python of units",
    "roles/torch_runtime.py": "a step",
    "peermem/dmabuf.py": "asked: dma-buf",
    "revert.py": "no role's plan",
    "replaced.py": "keeps what a change replaces, when a plan is carried out",
}
READS = {
    "os": {"stat", "lstat", "listdir", "scandir", "walk", "readlink", "uname", "open", "environ"},
    "os.path": {"exists", "isfile", "isdir", "islink", "realpath", "getsize", "getmtime"},
    "subprocess": {"run", "Popen", "check_output"},
    "shutil": {"which", "copy"},
    "pwd": {"getpwuid", "getpwnam", "getpwall"},
    "grp": {"getgrgid", "getgrnam"},
    "ctypes": {"CDLL"},
    "socket": {"socket", "gethostname"},
    "platform": {"machine", "release"},
}


def reads_past_machine(text: str) -> set[str]:
    """Return what a module's code calls that reads the machine it runs on."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in READS.get(ast.unparse(node.value), ()):
            found.add(ast.unparse(node))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            found.add("open")
    return found


def test_every_reading_goes_through_machine():
    root = Path(plugins.module_utils.__path__[0])
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if reads_past_machine(path.read_text(encoding="utf-8"))
    }
    assert found == PAST_MACHINE.keys(), "ask it with machine.ask(), and say so here"


@pytest.mark.parametrize("text", ["os.stat(path)", "open(path)", "import pwd\npwd.getpwuid(0)"])
def test_reading_past_machine_is_found(text: str):
    assert reads_past_machine(text)
