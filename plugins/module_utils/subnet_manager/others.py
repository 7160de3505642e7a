"""Who else manages the subnet of a port: asked before a manager is started. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..machine import CommandFailed, Machine, NodeError
from ..plan import Refused
from .port import Port

_MASTER = re.compile(
    r"sm lid (\d{1,5}) sm guid (0x[0-9a-f]{1,16}), activity count \d+ "
    r"priority (\d{1,2}) state \d+ SMINFO_([A-Z]+)"
)
# What sminfo says where no manager answers, or none ever did.
_NONE = re.compile(r"failed: query|bad status|Invalid SM lid|can't resolve|timed out", re.I)
_RECORD = re.compile(r"LID\.+(\d{1,5})\s.*?GUID\.+(0x[0-9a-f]{1,16})\s", re.S)
_DESCRIPTION = re.compile(r"Node Description:\.*(.*)")


@dataclass(frozen=True)
class Allowed:
    """Whose manager may be in the subnet."""

    hosts: tuple[str, ...]
    guids: frozenset[int]  # of ports of other managers that the site accepts


@dataclass(frozen=True)
class Other:
    """A subnet manager."""

    lid: int
    guid: int
    priority: int | None = None  # None if it was not asked for it
    is_master: bool = False


def master(machine: Machine, port: Port) -> Other | None:
    """Return the master of a port's subnet, None if none answers; NodeError: it cannot be asked."""
    try:
        said = machine.run(["sminfo", *port.options])
    except CommandFailed as error:
        said = error.output
    found = _MASTER.search(said)
    if found is not None:
        return Other(int(found[1]), int(found[2], 16), int(found[3]), found[4] == "MASTER")
    if _NONE.search(said):
        return None
    last = (said.strip().splitlines() or ["it printed nothing"])[-1]
    raise NodeError(
        f"rail {port.rail}: whether another subnet manager runs is unknown, so none is started: "
        f"sminfo on {port.device}: {last}. Run on the node: modprobe ib_umad; ibstat {port.device}"
    )


def refuse_strangers(
    machine: Machine, port: Port, allowed: Allowed, own_runs: bool
) -> Other | None:
    """Return the master, if every manager of the subnet is one that the site names.

    Args:
        own_runs: whether a manager that is the role's to stop or to restart runs on the port.

    Raises:
        Refused: a manager is none that the site names.
    """
    found = master(machine, port)
    if found is None:
        return None
    if found.guid == port.guid and not own_runs:
        raise Refused(
            f"rail {port.rail}: a subnet manager runs on {port.device} that is no unit of rdmaprov "
            "or of opensm's package; is it UFM's? Stop it, or take this node out of "
            "subnet_manager_hosts. Run on the node: pgrep -a opensm"
        )
    for each in [found, *_standing_by(machine, port, found)]:
        if each.guid != port.guid and each.guid not in allowed.guids:
            _require_host(machine, port, allowed, each)
    return found


def _standing_by(machine: Machine, port: Port, found: Other) -> list[Other]:
    """Return the managers that the master knows beside itself; none if it does not tell.

    A master of another kind may have no such table; the master itself was read without it.
    """
    try:
        said = machine.run(["saquery", *port.options, "SMIR"])
    except NodeError:
        return []
    records = [Other(int(lid), int(guid, 16)) for lid, guid in _RECORD.findall(said)]
    return [each for each in records if each.guid != found.guid]


def _require_host(machine: Machine, port: Port, allowed: Allowed, other: Other) -> None:
    description = _description(machine, port, other.lid)
    host = (description.split() or [""])[0].partition(".")[0].lower()
    if host and host in {name.partition(".")[0].lower() for name in allowed.hosts}:
        return
    what = "master" if other.is_master else "subnet manager"
    what += "" if other.priority is None else f" (priority {other.priority})"
    raise Refused(
        f"rail {port.rail}: a {what} of the subnet of {port.device} is not the site's: "
        f"{description or 'a port without a description'}, LID {other.lid}, GUID {other.guid:#018x}"
        ". Two owners would write each other's routes. Stop that one (a switch's or UFM's own "
        "manager), or take this node out of subnet_manager_hosts, or, to run beside it, write "
        f"subnet_manager_beside: ['{other.guid:#018x}']"
    )


def _description(machine: Machine, port: Port, lid: int) -> str:
    try:
        said = machine.run(["smpquery", *port.options, "nodedesc", str(lid)])
    except NodeError:
        return ""
    found = _DESCRIPTION.search(said)
    text = found[1].strip() if found else ""
    return "".join(each if each.isprintable() else "?" for each in text[:64])
