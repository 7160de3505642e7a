"""Where Slurm's jobs have their limit of locked memory from. Runs on the node.

By default that is the shell that submitted the job, on whatever machine: man slurm.conf(5),
PropagateResourceLimits. slurm.conf is the cluster's, so this is said and not changed.
"""

from __future__ import annotations

import os.path
import re

from ..machine import Machine

# slurmd of a cluster without files on its nodes links what it fetched; else it reads the file.
FILES = ("/run/slurm/conf/slurm.conf", "/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf")
_SETTING = re.compile(r"\s*(propagateresourcelimits(?:except)?)\s*=\s*(\"[^\"]*\"|\S*)", re.I)
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*$", re.I)
_DEEPEST = 8


def warnings(machine: Machine) -> list[str]:
    """Return what keeps jobs from the node's limit, for a node on which slurmd is installed."""
    path = next((each for each in FILES if machine.exists(each)), None)
    if path is None:
        return []
    settings: dict[str, str] = {}
    _read(machine, path, settings, 0)
    exceptions = settings.get("propagateresourcelimitsexcept")
    if exceptions is not None:
        from_submitter = not _has_memlock(exceptions)
    else:
        from_submitter = _has_memlock(settings.get("propagateresourcelimits", "ALL"))
    if not from_submitter:
        return []
    return [
        f"{path}: jobs get the memlock limit of the shell that submits them, not this node's; "
        "on the controller of Slurm, write PropagateResourceLimitsExcept=MEMLOCK, then run: "
        "scontrol reconfigure"
    ]


def _has_memlock(names: str) -> bool:
    words = [name.upper().replace("RLIMIT_", "") for name in re.split(r"[,\s]+", names)]
    return "ALL" in words or "MEMLOCK" in words


def _read(machine: Machine, path: str, settings: dict[str, str], depth: int) -> None:
    """Take over what a file and those that it includes set; the last one counts."""
    for line in (machine.read(path) or "").replace("\\\n", " ").splitlines():
        code = line.partition("#")[0]
        setting, included = _SETTING.match(code), _INCLUDE.match(code)
        if setting is not None:
            settings[setting.group(1).lower()] = setting.group(2).strip('"')
        elif included is not None and depth < _DEEPEST:
            other = os.path.join(os.path.dirname(path), included.group(1))
            _read(machine, other, settings, depth + 1)
