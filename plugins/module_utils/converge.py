"""How every role's module works: plan, make the steps, plan again. Runs on the node."""

from __future__ import annotations

import importlib
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from . import busy, long_step
from .argument_specs import ARGUMENTS
from .guard import arm
from .lock import LOCK_ARGUMENT, Held, NodeLock
from .long_step import LongStep
from .machine import Machine, NodeError
from .plan import NotYet, Plan, carry_out, make
from .replaced import Replaced, files_of, name_of, void_proof

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES = 10  # of a unit: who looks whether the node is held has the lock for an instant


class Role(Protocol):
    """A module of module_utils that knows one role's subject."""

    def plan(self, machine: Machine, arguments: dict[str, Any]) -> Plan:
        """Return what must change."""


def main(role: ModuleType, spec: dict[str, Any] | None = None) -> None:
    """Run a role's module, for the role's module of module_utils.roles.

    Args:
        spec: the arguments of a module that is no role's; nothing of its changes is kept.
    """
    from ansible.module_utils.basic import AnsibleModule  # not on a node that pulls

    name = _name(role)
    module = AnsibleModule(
        argument_spec={**(spec or ARGUMENTS[name]), **LOCK_ARGUMENT, **busy.FORCE_ARGUMENT},
        supports_check_mode=True,
    )
    machine, given = Machine(), module.params["lock"]
    can_leave = bool(spec is None and given.get("unit")) and long_step.is_possible(machine)
    step = LongStep(machine, name, given["holder"]["id"]) if can_leave else None
    try:
        machine.require_root()
        answer = step.answer() if step else None
        if answer is None:
            answer = run(role, module.params, check=module.check_mode, own=spec is None, step=step)
            if step and answer.get("running"):
                step.start(module.params)
    except NodeError as error:
        answer = {"failed": True, "msg": str(error)}
    for warning in answer.pop("warnings", []):
        module.warn(warning)
    if answer.pop("failed", False):
        module.fail_json(**answer)
    module.exit_json(**answer)


def run_step(directory: str) -> None:
    """Run a role's module in the unit that has this directory."""
    request = long_step.take_request(directory)
    role = importlib.import_module(f"{__package__}.roles.{request.pop('role')}")
    for _ in range(_TRIES):
        answer = run(role, request, check=False, own=True, step=None)
        if "held" not in answer:
            break
        time.sleep(1)
    long_step.write_result(directory, answer)


def run(
    role: ModuleType, request: dict[str, Any], *, check: bool, own: bool, step: LongStep | None
) -> dict[str, Any]:
    """Return what a module is to answer to a request.

    Args:
        own: whether what its changes replace is kept.
        step: the unit for what takes long: where there is something of that kind to do, nothing is
            changed, and "running" is true. None makes all steps at once.
    """
    arguments, name = dict(request), _name(role)
    given, force = arguments.pop("lock"), arguments.pop("force_busy")
    machine = Machine()
    machine.standing = arguments.pop("standing_processes")
    try:
        with NodeLock(machine, {} if check else given) as lock:
            if given and not check:
                long_step.clear(machine, given["holder"]["id"], others=True)
            # The lock's own files are no part of the change.
            if own:
                kept = Replaced(Machine(machine.root), name_of(given), name)
                machine.keep, machine.note = kept.keep, kept.note
            result = converge(
                machine,
                role,
                arguments,
                check=check,
                force=force,
                leaves_long=step is not None,
                begin=lambda: void_proof(Machine(machine.root), name_of(given)),
            )
            if own and not check:
                result["replaced"] = files_of(machine, name_of(given), name)
            # The module runs again once the change is confirmed; until then, or until the timer
            # has reverted it, nobody else may change the node. Nor until the unit has the lock.
            lock.keep |= "confirm" in result or "running" in result
    except Held as error:
        at_work = long_step.is_at_work(machine, given["holder"]["id"])
        return {"failed": True, "msg": str(error), "held": {**error.held, "step": at_work}}
    except NotYet as error:
        if not check:
            return {"failed": True, "msg": str(error)}
        return {"changed": True, "changes": [], "reboot": [], "waits": str(error), "diff": []}
    except NodeError as error:
        return {"failed": True, "msg": str(error)}
    return result


def _name(role: ModuleType) -> str:
    return role.__name__.rpartition(".")[2]


def converge(
    machine: Machine,
    role: Role,
    arguments: dict[str, Any],
    check: bool,
    force: bool = False,
    *,
    leaves_long: bool = False,
    begin: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Make a node what the arguments say, and return the module's result.

    Changes on the management path are made first and alone, with a timer that reverts them;
    the result then has the timer's name as `confirm`, and the module is to be run again.

    Args:
        force: whether traffic may be interrupted although somebody uses the node.
        leaves_long: whether to leave a plan with a long step to a unit: the result then has
            `running`, and nothing was changed. A change to the management path never is left.
        begin: what is done before the first change.

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
    if leaves_long and plan.is_long and not plan.guarded:
        return {"changed": False, "running": True}
    begin()
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
