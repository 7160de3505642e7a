"""What `ofed_info -s` says: which OFED's tools a node has. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import Machine, NodeError

MLNX_OFED = "mlnx_ofed"
DOCA = "doca"
# MLNX_OFED says its own name; DOCA's OFED says OFED-internal, as did NVIDIA's DGX images with a
# MLNX_OFED of 4.7. MLNX_EN is MLNX_OFED without InfiniBand. A customer's or internal build has a
# suffix, which no package's version has.
_FORM = re.compile(
    r"(MLNX_OFED_LINUX|MLNX_EN_LINUX|mlnx-en|OFED[-\w]*?)-(\d+\.\d+)-([\d.]+\d)"
    r"(?:[-.][A-Za-z][\w.-]*)?:?"
)


@dataclass(frozen=True)
class Info:
    """An OFED."""

    flavour: str  # "mlnx_ofed" or "doca"
    version: str  # such as 24.10-1.1.4.0, or for doca OFED's own, such as 25.07-0.9.7


def parse(text: str) -> Info:
    """Return what a line of `ofed_info -s` says; raise ValueError for an unknown shape."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"ofed_info -s says '{text.strip()}', which is not a version of an OFED")
    old = int(found[2].split(".")[0]) < 23  # DOCA's first OFED was 23.04
    flavour = MLNX_OFED if found[1].lower().startswith("mlnx") or old else DOCA
    return Info(flavour, f"{found[2]}-{found[3]}")


def read(machine: Machine) -> Info | None:
    """Return the node's OFED, None if it has none: the kernel's own drivers have no ofed_info.

    Raises:
        NodeError: it has one of an unknown version.
    """
    if not machine.has("ofed_info"):
        return None
    try:
        return parse(machine.run(["ofed_info", "-s"]))
    except ValueError as error:
        raise NodeError(str(error)) from error
