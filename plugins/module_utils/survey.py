"""Every role's plan in one process: what a node needs, in one round trip. Runs on the node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import busy
from .machine import Machine, NodeError
from .plan import NotYet, Plan, Unsupported, changes_text
from .roles import ORDER

# Reasons for a reboot that were still there after one, by role: no run reboots for them again.
NOT_CURED = "/var/lib/rdmaprov/not-cured-by-reboot.json"
if TYPE_CHECKING:  # Python 3.8 subscripts neither of them
    from collections.abc import Callable

    # Makes the plan of a role, by its name, from its arguments.
    PlanRole = Callable[[str, Machine, dict[str, Any]], Plan]


def survey(
    machine: Machine,
    arguments: dict[str, dict[str, Any]],
    plan_role: PlanRole,
    *,
    reboots: bool = False,
) -> dict[str, Any]:
    """Return what each role would change.

    Args:
        arguments: by role, those of its module.
        plan_role: makes a role's plan; checks the arguments if that is still to be done.
        reboots: whether a node that requires a reboot gets it.

    Returns:
        "roles": by role, its "changes", "diff", the reasons for a "reboot", what it "interrupts",
        what it "waits" for, and its "notes"; "pending": the roles that must run, in order;
        "problems": what no run can repair; "unknown": the roles whose problem is a device of a kind
        that is not supported. A role that lacks what an earlier one may bring is
        pending; if no earlier one is, that is a problem, and so is a reason for a reboot that a
        reboot did not cure.
        "warnings": of all roles. "busy": where a role or the reboot interrupts traffic, who uses
        the node; "standing": the programs that do then, and do not count. "not_cured": those
        reasons by role, for `remember`. "boot_id": another one after each boot.
    """
    tried = not_cured_by_reboot(machine)
    not_cured: dict[str, list[str]] = {}
    roles: dict[str, dict[str, Any]] = {}
    pending: list[str] = []
    problems: list[str] = []
    unknown: list[str] = []
    warnings: list[str] = []
    for name in [name for name in ORDER if name in arguments]:
        entry: dict[str, Any] = _entry(Plan(machine))
        roles[name] = entry
        try:
            plan = plan_role(name, machine, arguments[name])
        except NotYet as error:
            if pending:
                entry["waits"] = str(error)
                pending.append(name)
            else:
                problems.append(f"{name}: {error}")
        except NodeError as error:
            problems.append(f"{name}: {error}")
            unknown += [name] if isinstance(error, Unsupported) else []
        else:
            not_cured[name] = _take_out(plan, tried.get(name, []))
            problems += [f"{name}: still so after a reboot: {why}" for why in not_cured[name]]
            if plan.reboot and reboots:
                plan.interrupt("reboot", "the node is away", "for several minutes")
            entry.update(_entry(plan))
            warnings += [f"{name}: {warning}" for warning in plan.warnings]
            if plan.steps:
                pending.append(name)
    users, standing = busy.look(machine) if interruptions(roles) else ([], [])
    boot_id = machine.value("/proc/sys/kernel/random/boot_id") or ""
    return {
        "roles": roles,
        "pending": pending,
        "problems": problems,
        "unknown": unknown,
        "warnings": warnings,
        "busy": users,
        "standing": standing,
        "not_cured": {name: reasons for name, reasons in not_cured.items() if reasons},
        "boot_id": boot_id,
    }


def interruptions(roles: dict[str, dict[str, Any]]) -> list[str]:
    """Return what the roles of a survey do to traffic, each once."""
    return list(dict.fromkeys(each for entry in roles.values() for each in entry["interrupts"]))


def not_cured_by_reboot(machine: Machine) -> dict[str, list[str]]:
    """Return the reasons for a reboot that one did not cure, by role, as last remembered."""
    try:
        read: dict[str, list[str]] = json.loads(machine.read(NOT_CURED) or "{}")
    except ValueError:
        return {}  # half of it, after a full disk: it costs one more reboot
    return read if isinstance(read, dict) else {}


def remember(machine: Machine, found: dict[str, Any], *, rebooted: bool) -> None:
    """Keep which reasons for a reboot one did not cure; forget those that are gone.

    Args:
        found: a survey, the last one of a run.
        rebooted: whether it follows a reboot: then every reason that is left was not cured.
    """
    wanted = {name: list(reasons) for name, reasons in found["not_cured"].items()}
    for name, entry in found["roles"].items():
        if rebooted and entry["reboot"]:
            wanted[name] = [*wanted.get(name, []), *entry["reboot"]]
    # What this survey did not look at stays as it is.
    others = {n: r for n, r in not_cured_by_reboot(machine).items() if n not in found["roles"]}
    wanted = {**others, **wanted}
    if not wanted:
        machine.remove(NOT_CURED)
    elif wanted != not_cured_by_reboot(machine):
        machine.write(NOT_CURED, json.dumps(wanted, indent=2) + "\n")


def remaining(found: dict[str, Any], rebooted_from: str) -> str:
    """Return what still differs from the site, empty if nothing does.

    Args:
        rebooted_from: boot_id before a reboot, after which no reason for one may be left; empty
            if there was none.
    """
    said = []
    for name, entry in found["roles"].items():
        if name in found["pending"]:
            said.append(f"{name}: {changes_text(entry['changes']) or entry['waits']}")
        if rebooted_from:
            said += [f"{name}: {reason}" for reason in entry["reboot"]]
    return "; ".join(said)


def is_over(found: dict[str, Any], rest: str, *, reboots: bool) -> bool:
    """Return whether a run is done with the node after its last survey.

    Args:
        reboots: whether a node that requires a reboot gets it.
    """
    is_required = any(entry["reboot"] for entry in found["roles"].values())
    return bool(rest or found["problems"]) or not (is_required and reboots)


def _take_out(plan: Plan, tried: list[str]) -> list[str]:
    """Take the reasons for a reboot that one did not cure out of a plan, and return them."""
    not_cured = [each for each in plan.reboot if each in tried]
    plan.reboot = [each for each in plan.reboot if each not in not_cured]
    return not_cured


def _entry(plan: Plan) -> dict[str, Any]:
    return {
        "changes": plan.changes(),
        "diff": plan.diffs(),
        "reboot": plan.reboot,
        "interrupts": plan.interrupts,
        "notes": plan.notes,
        "waits": "",
    }
