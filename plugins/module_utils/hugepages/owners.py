"""Who else sets the number of hugepages on a node. Runs on the node."""

from __future__ import annotations

import json

from .. import sysctl
from ..machine import Machine
from ..plan import Refused

DOCA = "/etc/mellanox/hugepages.d"
_SYSCTLS = ("/proc/sys/vm/nr_hugepages", "/proc/sys/vm/nr_hugepages_mempolicy")


def doca(machine: Machine) -> dict[int, int]:
    """Return what doca-hugepages takes at its next reload: pages by page size in KiB.

    It adds up what each application's file asks for and writes that for the whole node
    (Mellanox/mlnx-tools: tsbin/doca-hugepages).

    Raises:
        Refused: a file of its is not what it writes.
    """
    found: dict[int, int] = {}
    for name in machine.names(DOCA):
        if not name.endswith(".json"):
            continue
        try:
            for size, entry in json.loads(machine.read(f"{DOCA}/{name}") or "").items():
                found[int(size)] = found.get(int(size), 0) + int(entry["num"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Refused(
                f"{DOCA}/{name} is not what doca-hugepages writes, so its hugepages are "
                "unknown. Run on the node: doca-hugepages show"
            ) from error
    return {size: pages for size, pages in found.items() if pages}


def refuse_doca(kib: int, pages: int, theirs: int, variable: str) -> None:
    """Refuse another number than doca-hugepages has: its next reload would undo ours."""
    if pages and theirs and pages != theirs:
        raise Refused(
            f"doca-hugepages takes {theirs} pages of {kib} kB at its next reload ({DOCA}), "
            f"expected {pages}; write {variable}: {theirs}, or run on the node: "
            "doca-hugepages remove APP"
        )


def refuse_sysctl(machine: Machine, pages: int, variable: str) -> None:
    """Refuse another number than sysctl sets at boot, for pages of the default size."""
    found = sysctl.at_boot(machine)
    for path in _SYSCTLS:
        line = found.get(path)
        if line is not None and line.value != str(pages):
            raise Refused(
                f"{line.file}:{line.line}: sets vm.{path.rpartition('/')[2]} to {line.value} at "
                f"boot, expected {pages}; remove the line, or write {variable}: {line.value}"
            )
