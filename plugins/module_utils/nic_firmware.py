"""Firmware settings and version of the rails' NICs, through mstconfig or mlxconfig.

Runs on the node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .machine import CommandFailed, Machine, NodeError
from .pci import DEVICES, LOCKDOWN, is_locked_down, of_rail
from .plan import CONFIGURED, Change, NotYet, Plan, Refused, with_the_first
from .rails import Rail

VENDOR = "0x15b3"
# mstflint's and MFT's; both take a PCI address.
TOOLS = ("mstconfig", "mlxconfig")
MODEL, ENGINE = "INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE"
_LINK_TYPES = {"roce": "ETH(2)", "infiniband": "IB(1)"}  # as the tools show them
_COLUMNS = ("Default", "Current", "Next Boot", "New")
_SWITCH = {"true": "1", "false": "0"}
_MOST_FUNCTIONS = 256  # of a card


@dataclass(frozen=True)
class Setting:
    """One firmware setting of a device, each value as the tool shows it, such as ETH(2)."""

    name: str
    current: str  # what is in force; empty if the firmware does not say
    next_boot: str  # what the firmware reads when it starts
    read_only: bool


def parse(text: str) -> dict[str, Setting]:
    """Return the settings in a query's output, by name.

    The columns differ between versions and options; their header tells which there are.
    """
    columns: list[str] = []
    found: dict[str, Setting] = {}
    for line in text.splitlines():
        if line.startswith("Configurations:"):
            columns = re.findall("|".join(_COLUMNS), line)
            continue
        row = re.match(r"[* ]?(?:(RO)|\s)\s+([A-Z_]\w*(?:\[[\d.]+\])?)\s+(\S.*)$", line)
        values = row.group(3).split() if row and columns else []
        if row is None or len(values) != len(columns) or not columns:
            continue
        of = {column: values[place] for place, column in enumerate(columns)}
        found[row.group(2)] = Setting(
            row.group(2), of.get("Current", ""), of.get("Next Boot", ""), bool(row.group(1))
        )
    return found


def means(shown: str, wanted: Any) -> bool:
    """Return whether a shown value, such as True(1), is what a site wrote: true, 1 or 'True'."""
    text = str(wanted).strip().lower()
    text = _SWITCH.get(text, text)
    named = re.fullmatch(r"(.*)\((\d+)\)", shown.lower())
    accepted = named.groups() if named else (shown.lower(),)
    if re.fullmatch(r"0x[0-9a-f]+", text):
        text = str(int(text, 16))
    return text in accepted


def add(
    plan: Plan,
    rails: list[Rail],
    wanted: dict[str, Any],
    version: str,
    profiles: list[str],
    kind: str,
) -> None:
    """Add what must change for the rails' NICs to have these settings and run this version.

    Args:
        wanted: settings by name, which every NIC must have.
        version: the firmware's version; empty for any.
        profiles: sets of settings, of which each NIC gets those that it has and `wanted` has not.

    Raises:
        Refused: a NIC has no such setting, or runs another version; or the settings would take a
            rail away.
        NotYet: a tool or a driver is missing.
        NodeError: it is unknown.
    """
    machine = plan.machine
    ports = {rail: _functions(machine, rail) for rail in rails}
    nics = [rail for rail in rails if ports[rail]]
    if not nics:
        raise Refused(
            f"no rail is a ConnectX or a BlueField (PCI vendor {VENDOR}): remove "
            "mlx5_firmware_settings, mlx5_firmware_profiles and mlx5_firmware_version"
        )
    for rail in nics:
        _check_version(machine, rail, ports[rail][0], version)
    if not wanted and not profiles:
        return
    tool = next((tool for tool in TOOLS if machine.has(tool)), "")
    if not tool:
        raise NotYet("neither mstconfig (mstflint) nor mlxconfig (MFT) is installed")
    by_pci = {each: one for one in nics for each in ports[one]}
    if is_locked_down(machine) and not can_query(machine, tool, next(iter(by_pci))):
        plan.warnings.append(
            f"firmware settings of {', '.join(by_pci)} are neither read nor set: the kernel is "
            f"locked down ({LOCKDOWN}), and {tool} cannot access a card. Set them with Secure "
            "Boot off"
        )
        return
    for pci, rail in by_pci.items():
        listed = _list(machine, tool, pci) if profiles else {}
        every = {**_of_profiles(plan, pci, listed, profiles), **wanted}
        if every:
            settings = _query(machine, tool, pci, every, listed)
            _refuse_harm(machine, rail, pci, settings, every, kind)
            if {ENGINE, MODEL} & {*every}:
                both = {**_list(machine, tool, pci), **settings}
                _refuse_dpu_mode(f"{rail.name} {pci}", both, every)
            _plan(plan, tool, pci, settings, every)


def can_query(machine: Machine, tool: str, pci: str) -> bool:
    """Return whether a tool reaches a card at all."""
    try:
        return bool(parse(machine.run([tool, "-d", pci, "-e", "query"])))
    except CommandFailed:
        return False


def _list(machine: Machine, tool: str, pci: str) -> dict[str, Setting]:
    """Return all settings of a NIC."""
    query = [tool, "-d", pci, "-e", "query"]
    found = parse(machine.run(query))
    if not found:
        raise NodeError(f"{pci}: its settings are unknown ({' '.join(query)})")
    return found


def _of_profiles(
    plan: Plan, pci: str, found: dict[str, Setting], profiles: list[str]
) -> dict[str, Any]:
    """Return what a NIC has of the profiles' settings; note what it has not."""
    wanted = settings(profiles)
    lacking = [name for name in wanted if name not in found]
    if lacking:
        plan.notes.append(
            f"{pci}: its firmware has no {', '.join(lacking)} of mlx5_firmware_profiles"
        )
    return {name: value for name, value in wanted.items() if name in found}


def _refuse_harm(
    machine: Machine,
    rail: Rail,
    pci: str,
    settings: dict[str, Setting],
    wanted: dict[str, Any],
    kind: str,
) -> None:
    """Refuse what would take the rail's port, by what the card and its link say.

    Ports are functions, the first function the first port [Linux, mlx5: one function per port].
    """
    what, function = f"{rail.name} {pci}", int(pci[-1], 16)
    for name, value in wanted.items():
        shown = settings[name].next_boot
        is_switch = shown.lower().startswith(("true(", "false("))
        if not is_switch and "(" in shown and str(value).strip().lower() in _SWITCH:
            raise Refused(
                f"{what}: {name} is {shown}, so {value} is ambiguous "
                "(mlx5_firmware_settings); write the value's name or number"
            )
    link_type = f"LINK_TYPE_P{function + 1}"
    if link_type in wanted and not means(_LINK_TYPES[kind], wanted[link_type]):
        raise Refused(
            f"{what}: {link_type}={wanted[link_type]} is not {_LINK_TYPES[kind]}, which a rail of "
            f"fabric_kind {kind} needs; remove it"
        )
    if link_type in wanted and not means(settings[link_type].next_boot, wanted[link_type]):
        state = machine.value(f"/sys/class/infiniband/{rail.rdma}/ports/1/state") or ""
        if rail.rdma and "ACTIVE" in state:
            raise Refused(
                f"{what}: {link_type} is {settings[link_type].next_boot}, and its link is up "
                f"(/sys/class/infiniband/{rail.rdma}/ports/1/state): it is wired to a fabric of "
                f"that kind. Is fabric_kind: {kind} right for this node? Else unplug it first"
            )
    count = str(wanted.get("NUM_OF_PF", function + 1))
    if not any(means(str(each), count) for each in range(function + 1, _MOST_FUNCTIONS + 1)):
        raise Refused(
            f"{what}: NUM_OF_PF={count} removes its function (.{function}); write "
            f"{function + 1} or more"
        )


def _refuse_dpu_mode(what: str, settings: dict[str, Setting], wanted: dict[str, Any]) -> None:
    """Refuse to give a rail's port to the Arm processors of its BlueField."""

    def is_next(name: str, shown: str, *, after: bool) -> bool:
        value = wanted.get(name) if after else None
        seen = settings[name].next_boot if name in settings else ""
        return means(shown, value) if value is not None else seen == shown

    arms = ((ENGINE, "ENABLED(0)"), (MODEL, "EMBEDDED_CPU(1)"))
    if all(is_next(*each, after=True) for each in arms) and not all(
        is_next(*each, after=False) for each in arms
    ):
        raise Refused(
            f"{what}: {ENGINE} ENABLED(0) with {MODEL} EMBEDDED_CPU(1) is DPU mode: the Arm "
            f"processors would own the rail; write {ENGINE}: DISABLED"
        )


def _plan(
    plan: Plan, tool: str, pci: str, settings: dict[str, Setting], wanted: dict[str, Any]
) -> None:
    """Add one run of the tool for all settings: some are only valid together."""
    different = [name for name in wanted if not means(settings[name].next_boot, wanted[name])]
    command = [tool, "-d", pci, "-y", "set", *(f"{n}={_argument(wanted[n])}" for n in different)]
    for name in different:
        change = Change(
            CONFIGURED, pci, name, settings[name].next_boot, str(_argument(wanted[name]))
        )
        if name == different[0]:
            plan.command(change, command)
        else:
            plan.add(change, with_the_first)
    due = [name for name in wanted if not means(settings[name].current, wanted[name])]
    if due:
        plan.reboot.append(
            "{0}: {1} takes effect when the firmware restarts. If a reboot does not restart it, "
            "power-cycle the node, or run on the node: mlxfwreset -d {0} reset".format(
                pci, ", ".join(due)
            )
        )


def _query(
    machine: Machine, tool: str, pci: str, wanted: dict[str, Any], listed: dict[str, Setting]
) -> dict[str, Setting]:
    """Return the wanted settings; ask only for those not listed, as a query takes seconds."""
    left = [name for name in wanted if name not in listed]
    found = {**listed, **(_ask(machine, tool, pci, left) if left else {})}
    for name, value in wanted.items():
        _check(f"{pci} {name}", found.get(name), value, f"{tool} -d {pci} -e query {name}")
    return found


def _ask(machine: Machine, tool: str, pci: str, names: list[str]) -> dict[str, Setting]:
    """Return settings by name."""
    try:
        return parse(machine.run([tool, "-d", pci, "-e", "query", *names]))
    except CommandFailed as error:
        lacking = re.search(
            r"doesn't support (\S+) parameter|Unknown Parameter: (\S+)", error.output
        )
        if lacking is None:
            raise
        name = lacking.group(1) or lacking.group(2)
        raise Refused(
            f"{pci}: its firmware has no setting {name} ({tool} -d {pci} query); some settings "
            "exist only after ADVANCED_PCI_SETTINGS=1 and a reboot"
        ) from error


def _check(what: str, setting: Setting | None, wanted: Any, query: str) -> None:
    if setting is None or not setting.next_boot:
        raise NodeError(f"{what}: its value is unknown ({query})")
    if setting.next_boot.startswith("Array["):
        raise Refused(f"{what} is a list, {setting.next_boot}: write one element, NAME[0]")
    if setting.current in ("", "N/A"):
        raise NodeError(f"{what}: the firmware does not show its current value ({query})")
    if setting.read_only and not means(setting.next_boot, wanted):
        raise Refused(f"{what} is {setting.next_boot} and read-only, expected {wanted} ({query})")


def _check_version(machine: Machine, rail: Rail, address: str, wanted: str) -> None:
    if not wanted:
        return
    path = f"/sys/class/infiniband/{rail.rdma}/fw_ver"
    seen = machine.value(path) if rail.rdma else ""
    if not seen:
        raise NotYet(
            f"{rail.name}: no RDMA device shows its firmware version; is its driver loaded?"
        )
    if seen != wanted:
        raise Refused(
            f"{rail.rdma}: firmware {seen}, expected {wanted} (mlx5_firmware_version; {path}). "
            "rdmaprov does not burn firmware. "
            f"Run on the node: mstflint -d {address} -i IMAGE burn"
        )


def _argument(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _functions(machine: Machine, rail: Rail) -> list[str]:
    """Return the PCI addresses of a rail's NIC; of all of its ports for a bond."""
    found = [each.address for each in of_rail(machine, rail)]
    return [each for each in found if machine.value(f"{DEVICES}/{each}/vendor") == VENDOR]


# Values are those of the document that each profile names. The suite has the same in
# rdmaprov.facts.firmware_profiles; tests/unit/facts/test_tunables.py holds both together.
PROFILES: dict[str, dict[str, int]] = {
    # NVIDIA Network Operator 26.7, "Configuration Details", roceOptimized.
    "roce": {"ROCE_CC_PRIO_MASK_P1": 255, "ROCE_CC_PRIO_MASK_P2": 255},
    # The same page, gpuDirectOptimized: bare metal alone.
    "gpudirect": {"ATS_ENABLED": 0},
    # The same page, numVfs.
    "no-vfs": {"SRIOV_EN": 0, "NUM_OF_VFS": 0},
    # Microsoft, Azure/AzureLocal-Supportability, Troubleshoot-TOR-LLDP-DCBX-PFC-RoCEv2.md, step 3:
    # one LLDP agent on a port, and not the firmware's.
    "host-dcbx": {
        "LLDP_NB_DCBX_P1": 0,
        "LLDP_NB_RX_MODE_P1": 0,
        "LLDP_NB_TX_MODE_P1": 0,
        "LLDP_NB_DCBX_P2": 0,
        "LLDP_NB_RX_MODE_P2": 0,
        "LLDP_NB_TX_MODE_P2": 0,
    },
    # OpenStack, os-net-config/os-net-config, os_net_config/dcb_config.py, mstconfig().
    "firmware-dcbx": {
        "LLDP_NB_DCBX_P1": 1,
        "LLDP_NB_RX_MODE_P1": 2,
        "LLDP_NB_TX_MODE_P1": 2,
        "LLDP_NB_DCBX_P2": 1,
        "LLDP_NB_RX_MODE_P2": 2,
        "LLDP_NB_TX_MODE_P2": 2,
    },
    # WEKA documentation, "Prepare the system", 3: ports that WEKA uses.
    "weka": {"ADVANCED_PCI_SETTINGS": 1, "PCI_WR_ORDERING": 1},
}


def settings(profiles: list[str]) -> dict[str, int]:
    """Return the settings of profiles; a later profile wins."""
    return {name: value for each in profiles for name, value in PROFILES[each].items()}
