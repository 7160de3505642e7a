"""A made-up node: files below a directory, and programs that answer from a table."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from plugins.module_utils.argument_specs import ARGUMENTS
from plugins.module_utils.machine import CommandFailed, Machine

Answer = str | CommandFailed | Callable[[list[str]], str]


class FakeMachine(Machine):
    """A node in a directory.

    A program is installed if `programs` has an answer for a beginning of its command line; the
    longest one counts. `ran` has every command line.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.programs: dict[str, Answer] = {}
        self.ran: list[str] = []

    @classmethod
    def made(cls, root: Path | str) -> Self:
        node = cls(Path(root))
        node.prepare()
        return node

    def prepare(self) -> None:
        """Make it a factory node."""

    def has(self, program: str) -> bool:
        return any(line.split()[0] == program for line in self.programs)

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 0) -> str:  # noqa: ARG002
        line = " ".join(argv)
        self.ran.append(line)
        known = [start for start in self.programs if line.startswith(start)]
        assert known, f"the made-up node has no answer to: {line}"
        answer = self.programs[max(known, key=len)]
        if isinstance(answer, CommandFailed):
            raise answer
        return answer if isinstance(answer, str) else answer(argv)

    def put(self, name: str, text: str = "") -> None:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(self, name: str, target: str) -> None:
        path = Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(os.path.relpath(self.path(target), path.parent.resolve()))

    def nic(self, netdev: str, pci: str = "", rdma: str = "", index: int = 2) -> None:
        base = f"/sys/devices/virtual/net/{netdev}"
        if pci:
            base = f"/sys/devices/pci0000:00/{pci}/net/{netdev}"
            self.link(f"/sys/bus/pci/devices/{pci}", f"/sys/devices/pci0000:00/{pci}")
        self.put(f"{base}/mtu", "1500\n")
        self.put(f"{base}/ifindex", f"{index}\n")
        if pci:
            self.link(f"{base}/device", f"/sys/devices/pci0000:00/{pci}")
        self.link(f"/sys/class/net/{netdev}", base)
        if rdma:
            self.put(f"/sys/class/infiniband/{rdma}/ports/1/gid_attrs/ndevs/0", f"{netdev}\n")


def given(role: str, **changed: object) -> dict[str, Any]:
    """Return what a task of the role gives: the defaults of its spec, and what a site says."""
    return {name: of.get("default") for name, of in ARGUMENTS[role].items()} | changed


def layers(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["layer"], change["device"]) for change in result["changes"]]
