"""Every role's plan in one process: what a node needs, in one round trip. Runs on the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .machine import Machine, NodeError
from .plan import NotYet, Plan, changes_text
from .roles import ORDER

# Makes the plan of a role, by its name, from its arguments.
PlanRole = Callable[[str, Machine, dict[str, Any]], Plan]


def survey(
    machine: Machine, arguments: dict[str, dict[str, Any]], plan_role: PlanRole
) -> dict[str, Any]:
    """Return what each role would change.

    Args:
        machine: the node.
        arguments: by role, those of its module.
        plan_role: makes a role's plan; checks the arguments if that is still to be done.

    Returns:
        "roles": by role, its "changes", "diff", the reasons for a "reboot", what it "waits" for,
        and its "notes"; "pending": the roles that must run, in order; "problems": what no run
        can repair. A role that lacks what an earlier one may bring is pending; if no earlier
        one is, that is a problem. "warnings": of all roles. "boot_id": another one after each
        boot.

    """
    roles: dict[str, dict[str, Any]] = {}
    pending: list[str] = []
    problems: list[str] = []
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
        else:
            entry.update(_entry(plan))
            warnings += [f"{name}: {warning}" for warning in plan.warnings]
            if plan.steps:
                pending.append(name)
    boot_id = machine.value("/proc/sys/kernel/random/boot_id") or ""
    return {
        "roles": roles,
        "pending": pending,
        "problems": problems,
        "warnings": warnings,
        "boot_id": boot_id,
    }


def remaining(found: dict[str, Any], rebooted_from: str) -> str:
    """Return what still differs from the site, empty if nothing does.

    Args:
        found: a survey.
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
        found: the survey.
        rest: what still differs from the site.
        reboots: whether a node that requires a reboot gets it.

    """
    is_required = any(entry["reboot"] for entry in found["roles"].values())
    return bool(rest or found["problems"]) or not (is_required and reboots)


def _entry(plan: Plan) -> dict[str, Any]:
    return {
        "changes": plan.changes(),
        "diff": plan.diffs(),
        "reboot": plan.reboot,
        "notes": plan.notes,
        "waits": "",
    }
