"""Units as the service manager knows them. Runs on the node."""

from __future__ import annotations

import os.path
import re

from .machine import Machine

# What starts jobs on a node. A boot's settings come before them: some take a link down. Units of
# Slurm, Kubernetes (k3s and RKE2 have containerd in their own), container engines, TORQUE and
# OpenPBS, Grid Engine, IBM Spectrum LSF and Flux; sources in tests/roles/test_jobs.py.
JOBS = " ".join(
    f"{name}.service"
    for name in ("slurmd", "kubelet", "containerd", "docker", "crio", "k3s", "k3s-agent",
                 "rke2-server", "rke2-agent", "pbs_mom", "pbs", "sgeexecd", "lsfd", "flux")
)  # fmt: skip

_MASK = "null"  # /dev/null, to which a masked unit is a link
_DIRECTORIES = ("/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")

# A transient unit requires sysinit.target unless it says otherwise, and so would start what that
# holds on a node that has not booted so far, or not in this way.
ALONE = ("DefaultDependencies=no", "Conflicts=shutdown.target", "Before=shutdown.target")


def show(machine: Machine, properties: str, units: list[str]) -> list[dict[str, str]]:
    """Return properties (a list with commas) of each unit, also of one that does not exist."""
    if machine.is_image:
        return [_on_disk(machine, unit, properties) for unit in units]
    shown = machine.run(["systemctl", "show", "--property=" + properties, *units])
    return [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in shown.strip().split("\n\n")
    ]


def _on_disk(machine: Machine, unit: str, properties: str) -> dict[str, str]:
    """Return what an image's files say of a unit; nothing of it runs."""
    name = _file(machine, unit)  # of an alias, that of the unit, which may be masked
    name = name and _file(machine, name)
    state = {"": "not-found", _MASK: "masked"}.get(name, "loaded")
    own = {"Id": unit if state != "loaded" else name, "LoadState": state, "MainPID": "0"}
    return {**dict.fromkeys(properties.split(","), ""), **own}


def _file(machine: Machine, unit: str) -> str:
    """Return the name of a unit's file, where a link leads; empty if there is none."""
    paths = (f"{directory}/{unit}" for directory in _DIRECTORIES)
    file = next((path for path in paths if unit == _MASK or machine.exists(path)), "")
    return os.path.basename(machine.real(file)) if file else ""


def escape(name: str) -> str:
    """Return a name as a part of a unit's name: what systemd-escape NAME prints."""
    text = "".join(
        each if re.fullmatch(r"[A-Za-z0-9:_.]", each) else _escape(each) for each in name
    )
    return _escape(".") + text[1:] if text.startswith(".") else text


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
