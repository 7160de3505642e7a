"""How every role's module works: plan, make the steps, plan again. Runs on the node."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Protocol

from ansible.module_utils.basic import AnsibleModule

from . import busy
from .argument_specs import ARGUMENTS
from .guard import arm
from .lock import LOCK_ARGUMENT, Held, NodeLock
from .machine import Machine, NodeError
from .plan import NotYet, Plan, carry_out, make
from .replaced import Replaced, files_of, name_of


class Role(Protocol):
    """A module of module_utils that knows one role's subject."""

    def plan(self, machine: Machine, arguments: dict[str, Any]) -> Plan:
        """Return what must change."""


def main(role: ModuleType, spec: dict[str, Any] | None = None) -> None:
    """Run a role's module, for the role's module of module_utils.roles.

    Args:
        spec: the arguments of a module that is no role's; nothing of its changes is kept.
    """
    name = role.__name__.rpartition(".")[2]
    module = AnsibleModule(
        argument_spec={**(spec or ARGUMENTS[name]), **LOCK_ARGUMENT, **busy.FORCE_ARGUMENT},
        supports_check_mode=True,
    )
    arguments = dict(module.params)
    given, force = arguments.pop("lock"), arguments.pop("force_busy")
    machine = Machine()
    machine.standing = arguments.pop("standing_processes")
    try:
        machine.require_root()
        with NodeLock(machine, {} if module.check_mode else given) as lock:
            # The lock's own files are no part of the change.
            if spec is None:
                kept = Replaced(Machine(machine.root), name_of(given), name)
                machine.keep, machine.note = kept.keep, kept.note
            result = converge(machine, role, arguments, check=module.check_mode, force=force)
            if spec is None and not module.check_mode:
                result["replaced"] = files_of(machine, name_of(given), name)
            # The module runs again once the change is confirmed; until then, or until the timer
            # has reverted it, nobody else may change the node.
            lock.keep |= "confirm" in result
    except Held as error:
        module.fail_json(msg=str(error), held=error.held)
    except NotYet as error:
        if not module.check_mode:
            module.fail_json(msg=str(error))
        module.exit_json(changed=True, changes=[], reboot=[], waits=str(error), diff=[])
    except NodeError as error:
        module.fail_json(msg=str(error))
    for warning in result.pop("warnings"):
        module.warn(warning)
    module.exit_json(**result)


def converge(
    machine: Machine, role: Role, arguments: dict[str, Any], check: bool, force: bool = False
) -> dict[str, Any]:
    """Make a node what the arguments say, and return the module's result.

    Changes on the management path are made first and alone, with a timer that reverts them;
    the result then has the timer's name as `confirm`, and the module is to be run again.

    Args:
        force: whether traffic may be interrupted although somebody uses the node.

    Raises:
        Busy: somebody does, and it may not; nothing was changed.
        NotYet, Refused, NodeError: as planning and the steps do, and if a setting is not in
            effect after it was set.
    """
    plan = role.plan(machine, arguments)
    result = {
        "changed": bool(plan.steps),
        "changes": plan.changes(),
        "diff": plan.diffs(),
        "reboot": plan.reboot,
        "interrupts": plan.interrupts,
        "notes": plan.notes,
        "warnings": plan.warnings,
    }
    if check or not plan.steps:
        return result
    if not force:
        busy.refuse(machine, plan.interrupts)
    if plan.guarded:
        steps = [step for step in plan.steps if step.undo]
        if steps:
            guard = arm(machine, steps, plan.guarded, arguments["guard_revert_s"])
            for step in steps:
                guard.require_time()
                make(machine, step)
            result["confirm"] = guard.name
            return result
    after = carry_out(plan, lambda: role.plan(machine, arguments))
    return {**result, "reboot": after.reboot, "notes": after.notes, "warnings": after.warnings}
