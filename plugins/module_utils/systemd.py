"""Units as the service manager knows them. Runs on the node."""

from __future__ import annotations

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

# A transient unit requires sysinit.target unless it says otherwise, and so would start what that
# holds on a node that has not booted so far, or not in this way.
ALONE = ("DefaultDependencies=no", "Conflicts=shutdown.target", "Before=shutdown.target")


def show(machine: Machine, properties: str, units: list[str]) -> list[dict[str, str]]:
    """Return properties (a list with commas) of each unit, also of one that does not exist."""
    shown = machine.run(["systemctl", "show", "--property=" + properties, *units])
    return [
        dict(line.partition("=")[::2] for line in block.splitlines())
        for block in shown.strip().split("\n\n")
    ]


def escape(name: str) -> str:
    """Return a name as a part of a unit's name: what systemd-escape NAME prints."""
    text = "".join(
        each if re.fullmatch(r"[A-Za-z0-9:_.]", each) else _escape(each) for each in name
    )
    return _escape(".") + text[1:] if text.startswith(".") else text


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())
