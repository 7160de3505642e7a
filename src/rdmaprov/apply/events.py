"""Ansible's events, parsed: surveys, changes of roles, failures."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov import boundary
from rdmaprov.boundary import Document, OddAnswer
from rdmaprov.inventory.ansible_api import import_plugin
from rdmaprov.probe.reasons import Reason, lost_reason
from rdmaprov.probe.target import Target

COLLECTION = "rdmaprov.node."
SURVEY, REVERT = "survey", "revert"
_MOST_S = 1e8
_TAKE_BACK = "Take back "  # begins a task of the playbook of revert; a role follows


@dataclass(frozen=True)
class Change:
    """One setting that differs, or differed, from the site; as module_utils.plan writes it."""

    layer: str
    device: str
    setting: str
    seen: str
    wanted: str


@dataclass(frozen=True)
class RolePlan:
    """What one role would change on a node."""

    changes: tuple[Change, ...] = ()
    diffs: tuple[tuple[str, str, str], ...] = ()  # file, text before, text after
    reboot: tuple[str, ...] = ()
    waits: str = ""
    interrupts: tuple[str, ...] = ()  # what it does to traffic, and for about how long
    stays: tuple[str, ...] = ()  # what revert cannot take back


@dataclass(frozen=True)
class Survey:
    """What all roles would change on a node; roles in the order in which they run."""

    roles: Mapping[str, RolePlan] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()  # roles whose problem is a device that is not supported
    busy: tuple[str, ...] = ()  # who uses the node, if traffic is interrupted
    standing: tuple[str, ...] = ()  # programs that use it then and do not count
    boot_id: str = ""
    uptime_s: float = 0.0

    @property
    def interrupts(self) -> tuple[str, ...]:
        """Return what the roles, or a reboot after them, do to traffic, each once."""
        found = (text for plan in self.roles.values() for text in plan.interrupts)
        return tuple(dict.fromkeys(found))

    @property
    def reboot(self) -> tuple[str, ...]:
        """Return why a reboot is required, now or once the roles ran."""
        return tuple(reason for plan in self.roles.values() for reason in plan.reboot)


@dataclass(frozen=True)
class NodeEvent:
    """One event of a node.

    Args:
        kind: "started", "done", "running" (a long step, on the node), "skipped", "failed",
            "unreachable".
        role: the role of the task; empty for a task of the play.
        task: the task's name.
        survey: the state of the node, if the task was a survey.
        changed: whether the task changed the node.
        changes: what it changed, if the role reports it.
        message: why it failed, or what it waits for, on one line.
        seconds: the duration of the task.
        written: the files that the task's role wrote in this run, as results.json has them.
    """

    kind: str
    node: str
    role: str
    task: str
    survey: Survey | None = None
    changed: bool = False
    changes: tuple[Change, ...] = ()
    message: str = ""
    seconds: float = 0.0
    written: tuple[Mapping[str, Any], ...] = ()


# Ansible runs it before a role's first task; a role that is only a dependency has no other.
_VALIDATION = "ansible.builtin.validate_argument_spec"
# What Ansible writes before the cause.
_WRAPPED = re.compile(
    r"\A(?:Task failed: )?(?:Data could not be sent to remote host \S+ "
    r"Make sure this host can be reached over ssh: |Failed to connect to the host via ssh: )?"
)
# What Ansible writes if its module could not start, and what that means.
_OLD_PYTHON = (
    "the node's Python is older than 3.8, which plan and apply need (RHEL 8's own is 3.6): install "
    "one, such as python3.11 of AppStream, and set ansible_python_interpreter to it"
)
_CAUSES = {
    "ansible-core requires a minimum of Python": _OLD_PYTHON,
    "future feature annotations is not defined": _OLD_PYTHON,
    "No usable temporary directory found": "No space left on device for temporary files (/tmp, "
    "/var/tmp); nothing was changed. Free space on the node (df -h shows where), then run the same "
    "command again",
}
_ERRORS = ("module_stderr", "stderr")
_KINDS = {
    "runner_on_start": "started",
    "runner_on_ok": "done",
    "runner_on_skipped": "skipped",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}


def parse_event(
    event: Mapping[str, Any], find: Callable[[str], Target | None] = lambda _node: None
) -> NodeEvent | None:
    """Return an event of ansible-runner; None if it is about no node.

    Where a node could be asked nothing, for lack of sudo, say, that is no failure of its role.

    Args:
        find: returns how a node is reached.
    """
    kind = _KINDS.get(str(event.get("event", "")))
    data = _mapping(event.get("event_data"))
    node = str(data.get("host") or "")
    if kind is None or not node:
        return None
    result = _mapping(data.get("res"))
    action = str(data.get("resolved_action") or data.get("task_action") or "")
    own = action.removeprefix(COLLECTION) if action.startswith(COLLECTION) else ""
    survey = parse_survey(result) if own in (SURVEY, REVERT) and kind != "started" else None
    if kind == "failed" and data.get("ignore_errors"):
        kind = "done"
    if kind == "done" and own and result.get("running") is True:
        kind = "running"
    lost = None
    if kind in ("failed", "unreachable") and not (survey and (survey.problems or survey.pending)):
        lost = _lost(result, node, find, by_ssh=kind == "unreachable")
        kind = "unreachable" if lost else kind
    message = ""
    if kind in ("failed", "unreachable"):
        message = lost.text if lost else _message(result, survey)
    elif kind == "running":
        message = clean_reason(str(result.get("msg") or ""))
    return NodeEvent(
        kind=kind,
        node=node,
        role=_role(data, action),
        task=str(data.get("task") or action),
        survey=survey,
        changed=kind in ("done", "running") and bool(result.get("changed")),
        changes=_changes(result.get("changes")) if own != SURVEY else (),
        message=message,
        seconds=_number(data.get("duration")),
        written=tuple(_mapping(each) for each in _list(result.get("replaced"))),
    )


def _role(data: Mapping[str, Any], action: str) -> str:
    """Return the role of a task; empty for a task that only reads the site's variables."""
    task = str(data.get("task") or "")
    if action == COLLECTION + REVERT:
        return task.removeprefix(_TAKE_BACK) if task.startswith(_TAKE_BACK) else ""
    if action == _VALIDATION:
        return ""
    return str(data.get("role") or "").rpartition(".")[2]


def parse_survey(result: Mapping[str, Any]) -> Survey | None:
    """Return the survey in a module's result; None if the module failed before it."""
    if not isinstance(result.get("roles"), Mapping):
        return None
    roles = {str(name): _role_plan(_mapping(plan)) for name, plan in result["roles"].items()}
    pending, problems = _texts(result.get("pending")), _texts(result.get("problems"))
    boot, uptime = str(result.get("boot_id") or ""), _number(result.get("uptime_s"))
    unknown, busy = _texts(result.get("unknown")), _texts(result.get("busy"))
    standing = _texts(result.get("standing"))
    return Survey(roles, pending, problems, unknown, busy, standing, boot, uptime)


def _role_plan(plan: Mapping[str, Any]) -> RolePlan:
    diffs = tuple(
        (
            str(diff.get("after_header") or diff.get("before_header") or ""),
            str(diff.get("before") or ""),
            str(diff.get("after") or ""),
        )
        for diff in _list(plan.get("diff"))
        if isinstance(diff, Mapping)
    )
    changes, reboot = _changes(plan.get("changes")), _texts(plan.get("reboot"))
    interrupts = _texts(plan.get("interrupts"))
    waits, stays = str(plan.get("waits") or ""), _texts(plan.get("stays"))
    return RolePlan(changes, diffs, reboot, waits, interrupts, stays)


def _changes(found: object) -> tuple[Change, ...]:
    fields = ("layer", "device", "setting", "seen", "wanted")
    return tuple(
        Change(*(str(change.get(name, "")) for name in fields))
        for change in _list(found)
        if isinstance(change, Mapping)
    )


def _lost(
    result: Mapping[str, Any], node: str, find: Callable[[str], Target | None], *, by_ssh: bool
) -> Reason | None:
    said = "\n".join(str(result.get(key) or "") for key in ("msg", *_ERRORS))
    target = find(node) if by_ssh else None
    by_shell = "module_stderr" in result or "The module interpreter" in said
    return lost_reason(said, target, by_ssh=by_ssh, by_shell=by_shell)


def _message(result: Mapping[str, Any], survey: Survey | None) -> str:
    """Return why a task failed, on one line."""
    if survey is not None and survey.problems:
        return "; ".join(survey.problems)
    if survey is not None and survey.pending:
        return "still different from the site after apply: " + "; ".join(_remaining_changes(survey))
    message = result.get("msg") or result.get("censored") or "no reason given"
    stderr = str(result.get("module_stderr") or result.get("stderr") or "").strip()
    last = stderr.splitlines()[-1] if stderr else ""
    text = f"{message} ({last})" if last and last not in str(message) else str(message)
    text = next((cause for sign, cause in _CAUSES.items() if sign in text), text)
    return clean_reason(text)


def clean_reason(text: str) -> str:
    """Return why a task failed, on one line, without what Ansible writes before the cause.

    >>> clean_reason("Task failed: Failed to connect to the host via ssh: ssh: no route\\n")
    'ssh: no route'
    """
    return _WRAPPED.sub("", " ".join(text.split()))


def _remaining_changes(survey: Survey) -> list[str]:
    """Return the changes that a survey still finds."""
    left = []
    for name in survey.pending:
        plan = survey.roles.get(name, RolePlan())
        changes = ", ".join(
            f"{c.device} {c.setting} ({c.layer}) is {c.seen}, expected {c.wanted}"
            for c in plan.changes
        )
        left.append(f"{name}: {changes or plan.waits or 'changes pending'}")
    return left


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in _list(value))


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def known_event(event: Document, nodes: Collection[str]) -> Document:
    """Return an event of Ansible's, checked as a node's own answer was to be on the relay.

    Raises:
        OddAnswer: it is about another node, or not of the shape that ours have.
    """
    answers, roles = map(import_plugin, ("plugin_utils.answers", "module_utils.roles"))
    found: Document = _cleaned(event, answers.clean)
    data = found.get("event_data") or {}
    host = data.get("host") if isinstance(data, dict) else event
    if host and (not isinstance(host, str) or host not in nodes):
        raise OddAnswer(f"one of {boundary.shown(str(host))}")
    if boundary.number(_MOST_S)(data.get("duration") or 0) is not boundary.RIGHT:
        raise OddAnswer("one of no duration")
    result = data.get("res")
    if not isinstance(result, dict):
        return found
    said = {name: result[name] for name in ("msg", "stderr", "module_stderr") if name in result}
    try:
        if isinstance(result.get("roles"), dict):
            data["res"] = (
                answers.survey_answer(result, result["roles"].keys() & set(roles.ORDER)) | said
            )
        elif result.get("changes") or result.get("replaced"):
            data["res"] = answers.role_answer(result) | said
    except answers.Odd as error:
        raise OddAnswer(f"one that {error}") from error
    return found


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:  # noqa: ANN401 - of JSON
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _cleaned(each, clean) for name, each in value.items()}
    return [_cleaned(each, clean) for each in value] if isinstance(value, list) else value
