"""The library of a tuner plugin; nccl.conf in containers. Runs on the node."""

from __future__ import annotations

import re

from ..plan import Plan, Refused
from . import conf

_PLUGIN = re.compile(r"/?[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*")
_LONGEST_PLUGIN = 254  # [NCCL src/plugin/plugin_open.cc: MAX_STR_LEN]


def plugin_fault(name: str) -> str:
    """Return why a name is none of a plugin; empty if it is one."""
    if len(name) <= _LONGEST_PLUGIN and _PLUGIN.fullmatch(name):
        return ""
    return f"'{name[:80]}' is not a library's name or path: write one, such as example"


# nccl.conf in enroot's containers, by its mounts.d or environ.d. Source:
# NVIDIA/enroot doc/configuration.md, conf/mounts, src/common.sh (envsubst, envfmt).
_ROOT = "/etc/enroot"
_FILES = {
    "mounts": f"{_ROOT}/mounts.d/90-rdmaprov-nccl.fstab",
    "environ": f"{_ROOT}/environ.d/90-rdmaprov-nccl.env",
}
_HEADER = "# Written by rdmaprov (nccl); changes here are lost.\n"
_OPTIONS = "none x-create=file,bind,ro,nosuid,nodev,noexec,private"


def containers(plan: Plan, kind: str, values: dict[str, str]) -> None:
    """Have enroot's containers get what nccl.conf says, or no file of ours.

    Raises:
        Refused: there is no enroot, or it would change a value.
    """
    for other, path in _FILES.items():
        if other != kind:
            plan.absent(path)
    if kind == "off":
        return
    if not plan.machine.exists(_ROOT):
        raise Refused(f"nccl_enroot: there is no {_ROOT}: install enroot first, or write off")
    if kind == "mounts":
        lines = [f"{conf.PATH} {conf.PATH} {_OPTIONS}"]
    else:
        lines = [f"{name}={value}" for name, value in values.items()]
        odd = next((line for line in lines if "${" in line), "")
        if odd:
            raise Refused(f"nccl_enroot: environ cannot pass {odd}: write mounts")
    plan.file(_FILES[kind], _HEADER + "".join(f"{line}\n" for line in lines))
