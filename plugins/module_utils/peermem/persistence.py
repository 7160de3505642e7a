"""Persistence mode of NVIDIA GPUs, now and at boot. Runs on the node."""

from __future__ import annotations

import re

from .. import pci, systemd
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused

UNIT = "nvidia-persistenced.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/99-rdmaprov.conf"
HEADER = "# Written by rdmaprov (peermem); changes here are lost.\n"
_OFF = "--no-persistence-mode"
_PROPERTIES = "LoadState,UnitFileState,ExecStart,NeedDaemonReload,FragmentPath,DropInPaths"
_QUERY = ["nvidia-smi", "--query-gpu=persistence_mode", "--format=csv,noheader"]


def persistence(plan: Plan, wanted: str) -> None:
    """Have persistence mode on, if the site asks for that; without, no file of ours.

    Ubuntu's unit starts the daemon with --no-persistence-mode; a drop-in starts it without.

    Raises:
        Refused: there is no unit, a boot may not start it, or its command has another form.
    """
    machine = plan.machine
    if wanted != "on" or not pci.gpus(machine, (pci.NVIDIA,)):
        if plan.absent(DROP_IN):
            plan.then(["systemctl", "daemon-reload"])
        return
    unit = systemd.show(machine, _PROPERTIES, [UNIT])[0]
    if unit.get("LoadState") != "loaded":
        raise Refused(
            f"peermem_gpu_persistence: {UNIT} is {unit.get('LoadState', 'not-found')}: install the "
            "driver's package that has it (nvidia-compute-utils-BRANCH on Ubuntu, else "
            "nvidia-persistenced), unmask it, or write keep"
        )
    _at_boot(plan, unit)
    modes = machine.run(_QUERY).split()
    if set(modes) - {"Enabled"}:
        # By the daemon where it runs, which goes on, and so do jobs. [man nvidia-smi, -pm]
        change = Change(RUNNING, "GPUs", "persistence mode", ", ".join(modes), "Enabled")
        plan.command(change, ["nvidia-smi", "-pm", "1"])


def _at_boot(plan: Plan, unit: dict[str, str]) -> None:
    """Have the daemon started at boot, and without the option that turns its work off."""
    found = re.search(r"argv\[\]=(/[^;$%'\"\\{}]+?) ;", unit.get("ExecStart", ""))
    if found is None:
        raise Refused(f"{UNIT}: its ExecStart is not understood: {unit.get('ExecStart', '')[:80]}")
    words = found.group(1).split()
    command = " ".join(word for word in words if word != _OFF)
    if _OFF in words or plan.machine.exists(DROP_IN):
        change = Change(CONFIGURED, UNIT, "ExecStart", " ".join(words), command)
        text = f"{HEADER}[Service]\nExecStart=\nExecStart={command}\n"
        if plan.file(DROP_IN, text, change=change if _OFF in words else None):
            plan.then(["systemctl", "daemon-reload"])
        elif _OFF in words and unit.get("NeedDaemonReload") != "yes":
            raise Refused(f"{UNIT}: a file after {DROP_IN} has {_OFF}: {unit.get('DropInPaths')}")
        elif _OFF in words:
            plan.command(change, ["systemctl", "daemon-reload"])
    # Ubuntu's is static: a rule of udev's starts it with the driver.
    state = unit.get("UnitFileState", "")
    if state == "disabled":
        change = Change(CONFIGURED, UNIT, "unit", state, "enabled")
        plan.command(change, ["systemctl", "enable", UNIT])
    elif state not in ("enabled", "static"):
        raise Refused(f"{UNIT}: it is {state or 'of no known state'}, so no boot starts it")
