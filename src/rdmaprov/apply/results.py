"""The result of each node, from its events."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from rdmaprov.apply.events import Change, NodeEvent, RolePlan, Survey
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.ways import Takeover


@dataclass(frozen=True)
class ProbeResult:
    """What the probe found on a node."""

    # why Ansible must run on it, on one line; empty if the probe verified that the node matches the
    # site
    why: str
    survey: Survey | None = None  # the node's state, if the probe read it
    warnings: tuple[str, ...] = ()  # settings that work against a role and that no role changes
    unreachable: bool = False  # whether it was tried, and there was no connection


class NodeState(StrEnum):
    """The state of a node at the end of a run, or so far."""

    UNCHANGED = "unchanged"  # it matched the site before the run
    PENDING = "pending"  # plan: apply would change it
    CHANGED = "changed"  # the run changed it, and it matches the site now
    FAILED = "failed"
    UNKNOWN = "unknown"  # it has a device of a kind that is not supported
    UNREACHABLE = "unreachable"
    INCOMPLETE = "half_done"  # the run stopped while roles ran; the next run resumes
    NOT_STARTED = "not_begun"  # the run stopped before any role ran


_NOT_TOLD = {NodeState.UNKNOWN, NodeState.UNREACHABLE, NodeState.INCOMPLETE, NodeState.NOT_STARTED}


@dataclass(frozen=True)
class NodeResult:
    """The result of one node."""

    name: str
    applies: bool = False  # whether the run may change it; otherwise the run only surveys it
    before: Survey | None = None  # its first survey; None if there was none
    after: Survey | None = None  # its last survey after a role ran; None if there was none
    roles_started: tuple[str, ...] = ()  # the roles that did something, in their order
    running: str = ""  # the role that runs; empty between roles
    under_way: str = ""  # the role whose long step runs on the node, with no task meanwhile
    # the changes of each role
    changes: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    # the files that each role wrote
    written: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    failed: str = ""  # the task that failed, with its role in front; empty if none did
    problem: str = ""  # why it failed or is unreachable, on one line
    unreachable: bool = False  # whether ssh had no connection to it
    seconds: float = 0.0  # the duration of its tasks
    # whether the probe verified that it matches the site, so that Ansible did not run
    probed: bool = False
    not_proven: str = ""  # why the probe did not verify it; empty if there was no probe
    left: str = ""  # the step at which a rolling apply left it out of service, and why

    @property
    def state(self) -> NodeState:
        """Return the state that the surveys and roles so far add up to."""
        if self.unreachable:
            return NodeState.UNREACHABLE
        if self.failed:
            survey = self.after or self.before or Survey()
            is_unknown = survey.unknown and len(survey.unknown) == len(survey.problems)
            return NodeState.UNKNOWN if is_unknown else NodeState.FAILED
        if self.left:
            return NodeState.INCOMPLETE
        if self.before is None:
            return NodeState.NOT_STARTED
        if self.running or self.under_way:
            return NodeState.INCOMPLETE
        if not self.before.pending and not self.changes:
            return NodeState.UNCHANGED
        if not self.roles_started:
            return NodeState.NOT_STARTED if self.applies else NodeState.PENDING
        if self.after is None or self.after.pending:
            return NodeState.INCOMPLETE
        return NodeState.CHANGED if self.changes else NodeState.UNCHANGED

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the roles that ran, the running one last."""
        return tuple(
            dict.fromkeys((*self.roles_started, *([self.running] if self.running else [])))
        )

    @property
    def finished(self) -> bool:
        """Return whether the run has nothing left to do on the node."""
        return self.state not in (NodeState.NOT_STARTED, NodeState.INCOMPLETE)

    @property
    def reboot(self) -> tuple[str, ...]:
        """Return why a reboot is required, or will be on a pending node, by the last survey."""
        if self.after is not None:
            return self.after.reboot
        return self.planned.reboot

    @property
    def stays(self) -> tuple[str, ...]:
        """Return what revert cannot take back, by the first survey."""
        plans = self.before.roles if self.before is not None else {}
        return tuple(f"{role}: {text}" for role, plan in plans.items() for text in plan.stays)

    @property
    def planned(self) -> Survey:
        """Return the survey of what apply has still to do; an empty one if it did something."""
        if self.before is None or self.state not in (NodeState.UNCHANGED, NodeState.PENDING):
            return Survey()
        return self.before


def next_result(node: NodeResult, event: NodeEvent) -> NodeResult:
    """Return a node's result after one more event."""
    role = event.role
    node = replace(
        node, seconds=node.seconds + event.seconds, running=role if event.kind == "started" else ""
    )
    if event.kind == "running":
        node = replace(node, under_way=role)
    elif role and role == node.under_way and event.kind not in ("started", "skipped"):
        node = replace(node, under_way="")
    if event.survey is not None:
        if node.roles_started:
            node = replace(node, after=event.survey)
        else:
            node = replace(node, before=event.survey)
    if role and event.kind not in ("started", "skipped"):
        node = replace(node, roles_started=tuple(dict.fromkeys((*node.roles_started, role))))
    if event.kind == "unreachable":
        return replace(node, unreachable=True, problem=event.message)
    if event.kind == "failed":
        where = f"{role}: " if role else ""
        return replace(node, failed=f"{where}{event.task}", problem=event.message)
    if role and event.changed:
        done = (*node.changes.get(role, ()), *event.changes)
        node = replace(node, changes={**node.changes, role: done})
    if role and event.written:
        node = replace(node, written={**node.written, role: event.written})
    return node


class Results:
    """The results of all nodes of a run, updated by its events.

    Attributes:
        relays: those that were asked in the place of others.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        *,
        applies: bool,
        probed: Mapping[str, ProbeResult] | None = None,
    ) -> None:
        self.nodes = {name: NodeResult(name, applies) for name in nodes}
        self.interrupted = False
        self.relays: Sequence[Takeover] = ()
        for name, one in (probed or {}).items():
            self.nodes[name] = (
                replace(self.nodes[name], not_proven=one.why)
                if one.why
                else replace(self.nodes[name], before=one.survey, probed=True)
            )

    def record(self, event: NodeEvent) -> NodeResult:
        """Record an event; return the node's result since then."""
        self.nodes[event.node] = now = next_result(self.nodes[event.node], event)
        return now

    def in_state(self, *states: NodeState) -> list[NodeResult]:
        """Return the nodes in these states."""
        return [node for node in self.nodes.values() if node.state in states]

    def exit_code(self, *names: str) -> ExitCode:
        """Return the exit code of the run, or that of some nodes.

        The first that is true of: the run was interrupted; a node failed; a node is unreachable,
        unknown, incomplete or not started; changes are pending or a reboot is required.
        """
        nodes = [self.nodes[name] for name in names or self.nodes]
        states = {node.state for node in nodes}
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if NodeState.FAILED in states:
            return ExitCode.FAILED
        if states & _NOT_TOLD:
            return ExitCode.UNKNOWN
        if NodeState.PENDING in states or any(node.reboot for node in nodes):
            return ExitCode.PENDING
        return ExitCode.OK

    def as_data(self) -> dict[str, Any]:
        """Return one plain entry for each node."""
        return {name: _as_data(node) for name, node in self.nodes.items()}


def role_states(node: NodeResult) -> dict[str, str]:
    """Return the state of each role that a survey covered or that ran.

    That is unchanged, changed, failed, unknown, half_done, pending (it would change something and
    did not run) or waiting (for something that an earlier role installs).
    """
    surveyed = node.before.roles if node.before is not None else {}
    return {role: _role_state(node, role) for role in dict.fromkeys((*surveyed, *node.roles))}


def _role_state(node: NodeResult, role: str) -> str:
    before, left = node.before or Survey(), node.after or Survey()
    problems = (node.failed, *before.problems, *left.problems)
    if role in (*before.unknown, *left.unknown):
        return "unknown"
    if any(problem.startswith(f"{role}: ") for problem in problems):
        return "failed"
    cut = node.unreachable and role == node.roles_started[-1] if node.roles_started else False
    cut = cut or role in (node.running, node.under_way)
    if cut or (role in node.roles_started and role in left.pending):
        return "half_done"
    if role in node.changes:
        return "changed"
    if role in node.roles_started or role not in (*before.pending, *left.pending):
        return "unchanged"
    return "waiting" if before.roles.get(role, RolePlan()).waits else "pending"


def _as_data(node: NodeResult) -> dict[str, Any]:
    changes: Mapping[str, tuple[Change, ...]] = node.changes
    waits: dict[str, str] = {}
    if node.state is NodeState.PENDING and node.before is not None:
        plans = {name: node.before.roles[name] for name in node.before.pending}
        changes = {name: plan.changes for name, plan in plans.items()}
        waits = {name: plan.waits for name, plan in plans.items() if plan.waits}
    last = node.after or node.before or Survey()
    return {
        "state": str(node.state),
        "boot_id": last.boot_id,
        "uptime_s": last.uptime_s,
        "roles": role_states(node),
        "changes": {role: [asdict(change) for change in made] for role, made in changes.items()},
        "files": {role: list(own) for role, own in node.written.items()},
        "stays": list(node.stays),
        "waits": waits,
        "failed_task": node.failed,
        "problems": [node.problem] if node.problem else [],
        "reboot": list(node.reboot),
        "interrupts": list(node.planned.interrupts),
        "busy": list(node.planned.busy),
        "standing": list(node.planned.standing),
        "roles_run": list(node.roles),
        "seconds": round(node.seconds, 3),
        "probed": node.probed,
        "not_proven": node.not_proven,
    }
