"""Persistence mode of NVIDIA GPUs, now and at boot. Runs on the node."""

from __future__ import annotations

import re

from .. import pci, systemd
from ..plan import CONFIGURED, RUNNING, Change, Plan, Refused, with_the_first

UNIT = "nvidia-persistenced.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/99-rdmaprov.conf"
HEADER = "# Written by rdmaprov (peermem); changes here are lost.\n"
_OFF = "--no-persistence-mode"
_PROPERTIES = "LoadState,UnitFileState,ExecStart,NeedDaemonReload,FragmentPath,DropInPaths"
_QUERY = ["nvidia-smi", "--query-gpu=pci.bus_id,persistence_mode", "--format=csv,noheader"]


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
    off = [line for line in machine.run(_QUERY).splitlines() if not line.endswith(", Enabled")]
    for line in off:
        address, _, seen = line.partition(", ")
        change = Change(RUNNING, address, "persistence mode", seen or "not told", "Enabled")
        if line is off[0]:
            # By the daemon where it runs, which goes on, and so do jobs. [man nvidia-smi, -pm]
            plan.command(change, ["nvidia-smi", "-pm", "1"])
        else:
            plan.add(change, with_the_first)


def _at_boot(plan: Plan, unit: dict[str, str]) -> None:
    """Have the daemon started at boot, and without the option that turns its work off."""
    found = re.search(r"argv\[\]=(/[^;$%'\"\\{}]+?) ;", unit.get("ExecStart", ""))
    if found is None:
        raise Refused(f"{UNIT}: its ExecStart is not understood: {unit.get('ExecStart', '')[:80]}")
    words = found.group(1).split()
    started = f"{HEADER}[Service]\nExecStart=\nExecStart="
    ours = plan.machine.read(DROP_IN)
    if _OFF in words:
        command = " ".join(word for word in words if word != _OFF)
        if ours == f"{started}{command}\n" and unit.get("NeedDaemonReload") != "yes":
            raise Refused(f"{UNIT}: a file after {DROP_IN} has {_OFF}: {unit.get('DropInPaths')}")
        change = Change(CONFIGURED, UNIT, "ExecStart", _OFF, "without it")
        if not plan.file(DROP_IN, f"{started}{command}\n", change=change):
            plan.command(change, ["systemctl", "daemon-reload"])
        else:
            plan.then(["systemctl", "daemon-reload"])
    elif ours is not None and plan.file(DROP_IN, f"{started}{' '.join(words)}\n"):
        plan.then(["systemctl", "daemon-reload"])
    # Ubuntu's is static: a rule of udev's starts it with the driver.
    state = unit.get("UnitFileState", "")
    if state == "disabled":
        change = Change(CONFIGURED, UNIT, "unit", state, "enabled")
        plan.command(change, ["systemctl", "enable", UNIT])
    elif state not in ("enabled", "static"):
        raise Refused(f"{UNIT}: it is {state or 'of no known state'}, so no boot starts it")
