"""nccl.conf in enroot's containers, by its mounts.d or environ.d. Runs on the node.

Source: NVIDIA/enroot doc/configuration.md, conf/mounts, src/common.sh (envsubst, envfmt).
"""

from __future__ import annotations

from ..plan import Plan, Refused
from . import conf, tuner

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
        paths = [conf.PATH, *([tuner.PATH] if values.get("NCCL_TUNER_CONFIG_FILE") else [])]
        lines = [f"{path} {path} {_OPTIONS}" for path in paths]
    else:
        lines = [f"{name}={value}" for name, value in values.items()]
        odd = next((line for line in lines if "${" in line or tuner.PATH in line), "")
        if odd:
            raise Refused(f"nccl_enroot: environ does not carry {odd}: write mounts")
    plan.file(_FILES[kind], _HEADER + "".join(f"{line}\n" for line in lines))
