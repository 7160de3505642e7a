"""The program, descriptions and units that set the QoS again without Ansible. Runs on the node."""

from __future__ import annotations

from .. import machine as machine_module
from .. import netdevs as netdevs_module
from .. import plan as plan_module
from .. import rails as rails_module
from .. import shipped, systemd
from ..plan import CONFIGURED, RUNNING, Change, Plan
from . import (
    compare,
    congestion,
    dcb,
    description,
    link,
    marking,
    mlnx_qos,
    node,
    port,
    program,
    state,
)

OWNER = "roce_qos"
PROGRAM = shipped.directory_of(OWNER)
UNITS = "/etc/systemd/system"
# Only what a boot starts itself is ordered against what else it starts: a device that appears later
# would start its unit after the daemons that come before.
_BOOT = "multi-user.target"
RULES = "/etc/udev/rules.d/99-rdmaprov-roce-qos.rules"
HEADER = "# Written by rdmaprov (roce_qos); changes here are lost.\n"
# systemd waits 90 s for a device at boot, and mlx5_core 120 s for its firmware. What starts jobs
# comes after the wait, and does not need its end: a dead rail keeps no daemon away, nor does a
# driver that is loaded again stop one, as Requires= would.
# systemd.unit(5), JobRunningTimeoutSec=; mlx5_core/main.c, FW_PRE_INIT_TIMEOUT_MILI
_WAIT = HEADER + "[Unit]\nJobRunningTimeoutSec=300\n"
_PROPERTIES = "Id,ActiveState,UnitFileState,NeedDaemonReload"
# The program is the last.
MODULES = (
    machine_module,
    plan_module,
    netdevs_module,
    rails_module,
    compare,
    congestion,
    dcb,
    description,
    link,
    marking,
    mlnx_qos,
    node,
    port,
    state,
    program,
)


def unit_of(netdev: str) -> str:
    """Return the unit that sets the QoS of a network device."""
    return f"rdmaprov-roce-qos@{systemd.escape(netdev)}.service"


def units(machine: machine_module.Machine) -> dict[str, str]:
    """Return the files of systemd and udev by their paths."""
    start = f"ExecStart={shipped.command(machine, OWNER)}"
    device = "sys-subsystem-net-devices-%i.device"
    again = 'RUN+="/usr/bin/systemctl --no-block restart rdmaprov-roce-qos.service"\n'
    return {
        f"{UNITS}/rdmaprov-roce-qos@.service": HEADER
        + f"[Unit]\nDescription=RoCE quality of service of %I\nBindsTo={device}\nAfter={device}\n"
        f"Before={systemd.JOBS}\n"
        "StartLimitIntervalSec=0\n\n"
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\n{start} %I\nTimeoutStartSec=180\n\n"
        f"[Install]\nWantedBy={device} {_BOOT}\n",
        f"{UNITS}/rdmaprov-roce-qos.service": HEADER
        + "[Unit]\nDescription=RoCE quality of service, after an RDMA device or rdma_cm came\n"
        f"StartLimitIntervalSec=0\n\n[Service]\nType=oneshot\n{start}\nTimeoutStartSec=180\n",
        # What the kernel keeps for an RDMA device goes with it, and with rdma_cm.
        RULES: HEADER
        + f'ACTION=="add|move", SUBSYSTEM=="infiniband", {again}'
        + f'ACTION=="add", SUBSYSTEM=="module", KERNEL=="rdma_cm", {again}',
    }


def plan_program(plan: Plan) -> bool:
    """Have the program and its units; return whether that is a change."""
    changed = shipped.ship(plan, OWNER, MODULES)
    for path, text in units(plan.machine).items():
        changed |= plan.file(path, text)
    return changed


def plan_units(plan: Plan, netdevs: list[str], changed: bool) -> None:
    """Have the netdevs' units, enabled and run, and no other netdev's.

    That a unit ran shows that its program works here, before a boot needs it. Enabling alone is
    not enough: the device's unit learns of it when systemd reads its files again.
    """
    stale = [each for each in program.described_netdevs(plan.machine) if each not in netdevs]
    names = [unit_of(netdev) for netdev in [*netdevs, *stale]]
    if not names:
        return
    known = {each["Id"]: each for each in systemd.show(plan.machine, _PROPERTIES, names)}
    wrong = {
        netdev: _unit_changes(plan.machine, netdev, known.get(unit_of(netdev), {}))
        for netdev in netdevs
    }
    for netdev in netdevs:
        changed |= plan.file(_wait_of(netdev), _WAIT)
    if changed or stale or any(wrong.values()):
        plan.then(["systemctl", "daemon-reload"])
        plan.then(["udevadm", "control", "--reload"])
    for netdev in stale:
        plan.absent(program.description_of(netdev))
        plan.absent(_wait_of(netdev))
        plan.then(["systemctl", "disable", "--now", unit_of(netdev)])
    for netdev, changes in wrong.items():
        if changed or changes:
            _plan_start(plan, unit_of(netdev), changes)


def _unit_changes(
    machine: machine_module.Machine, netdev: str, seen: dict[str, str]
) -> list[Change]:
    changes = []
    state = seen.get("UnitFileState") or "absent"
    # A boot goes by the links on the disk; systemd remembers what they were.
    is_linked = all(unit_of(netdev) in machine.names(each) for each in _links(netdev))
    if state != "enabled" or not is_linked:
        state = "not linked on the disk" if state == "enabled" else state
        changes.append(Change(CONFIGURED, netdev, "unit", state, "enabled"))
    if seen.get("ActiveState") != "active" or seen.get("NeedDaemonReload") == "yes":
        state = seen.get("ActiveState", "unknown")
        stale = ", its file not read" if seen.get("NeedDaemonReload") == "yes" else ""
        changes.append(Change(RUNNING, netdev, "unit", state + stale, "active"))
    return changes


def _links(netdev: str) -> list[str]:
    """Return the directories with the unit's links: a boot's, and its device's."""
    return [f"{UNITS}/{each}.wants" for each in (_BOOT, _device_of(netdev))]


def _device_of(netdev: str) -> str:
    return f"sys-subsystem-net-devices-{systemd.escape(netdev)}.device"


def _wait_of(netdev: str) -> str:
    return f"{UNITS}/{_device_of(netdev)}.d/rdmaprov-roce-qos.conf"


def _plan_start(plan: Plan, unit: str, changes: list[Change]) -> None:
    commands = [["systemctl", "enable", unit], ["systemctl", "restart", unit]]
    for index, argv in enumerate(commands):
        of_layer = (CONFIGURED, RUNNING)[index]
        change = next((each for each in changes if each.layer == of_layer), None)
        if change is None:
            plan.then(argv)
        else:
            plan.command(change, argv)
