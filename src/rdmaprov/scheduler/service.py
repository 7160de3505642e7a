"""Take nodes out of service and return them: no reason of somebody else's is overwritten.

A job can start between a look and the drain. So nodes are drained first and looked at again: what
started in between runs to its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.model import MARK, NodeStatus, Scheduler, our_reason
from rdmaprov.words import duration

POLL_S = 2.0  # one scontrol and one squeue each; our choice
_SETTLE_S = 60.0  # until a daemon that was restarted answers; slurmd needs seconds; our choice
# What slurmctld writes itself [its ping_nodes.c, node_mgr.c]; nobody's decision is lost with it.
_OF_SLURM = frozenset({"Not responding", "Node unexpectedly rebooted"})


@dataclass(frozen=True)
class StepOutcome:
    """How a request about a node, or about several, ended."""

    code: ExitCode = ExitCode.OK
    text: str = ""  # what a person must know, on one line; empty if nothing
    # how it ended for each node, where that is known; others passed
    nodes: Mapping[str, StepOutcome] = field(default_factory=dict)
    untouched: bool = False  # whether nothing was changed on the node

    @property
    def is_ok(self) -> bool:
        """Return whether it was done."""
        return self.code is ExitCode.OK

    def of(self, node: str) -> StepOutcome:
        """Return how it ended for a node."""
        return self.nodes.get(node, StepOutcome()) if self.nodes else self


@dataclass(frozen=True)
class Clock:
    """How time passes; tests have another one."""

    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


def is_foreign(status: NodeStatus) -> bool:
    """Return whether somebody else took a node out of service."""
    if status.reason.startswith(MARK) or status.reason in _OF_SLURM:
        return False
    return status.drains or (not status.up and bool(status.reason))


def take_out(
    scheduler: Scheduler,
    nodes: Sequence[str],
    why: str,
    *,
    wait_s: float,
    take_over: bool = False,
    tell: Callable[[str], None] = lambda _text: None,
    clock: Clock = Clock(),
) -> dict[str, StepOutcome]:
    """Drain nodes and wait until nothing runs on them; a job ends unharmed.

    Args:
        wait_s: seconds to wait for jobs.
        take_over: replace the reason of who drained a node before, and keep it in ours.

    Raises:
        SchedulerError: the scheduler does not answer; nodes may be drained, with our reason.
    """
    before = scheduler.status(nodes)
    for node, status in before.items():
        foreign = is_foreign(status)
        if foreign and not take_over:
            tell(f"{node}: {status.text}: somebody else's reason, which stays")
            if not status.drains:
                continue
        elif not (status.is_ours and status.reason.startswith(our_reason(why))):
            was = f" (was: {status.reason})" if foreign and status.reason else ""
            scheduler.drain(node, our_reason(f"{why}{was}"))
    return _wait_until_empty(scheduler, nodes, wait_s, tell, clock)


def _wait_until_empty(
    scheduler: Scheduler,
    nodes: Sequence[str],
    wait_s: float,
    tell: Callable[[str], None],
    clock: Clock,
) -> dict[str, StepOutcome]:
    deadline = clock.now() + wait_s
    announced: set[str] = set()
    while True:
        seen = scheduler.status(nodes)
        left = {node: status for node, status in seen.items() if _is_in_use(status)}
        if not left or clock.now() >= deadline:
            return {node: _out(status, wait_s) for node, status in seen.items()}
        for node in left.keys() - announced:
            tell(f"{node}: {left[node].text}; waiting up to {duration(wait_s)}")
        announced |= left.keys()
        clock.pause(POLL_S)


def _is_in_use(status: NodeStatus) -> bool:
    """Return whether something runs; a node that is down by somebody's decision runs nothing."""
    return status.busy or not (status.drains or not status.up)


def _out(status: NodeStatus, wait_s: float) -> StepOutcome:
    if status.drains and _is_in_use(status):
        text = f"still in use after {duration(wait_s)}: {status.text}; it stays drained"
        return StepOutcome(ExitCode.UNKNOWN, text)
    return out_of_service(status)


def out_of_service(status: NodeStatus) -> StepOutcome:
    """Return OK if nothing runs on a node that was drained, and nothing can start there."""
    if not _is_in_use(status):
        return StepOutcome()
    return StepOutcome(ExitCode.UNKNOWN, f"it was drained, and is not any more: {status.text}")


def note(scheduler: Scheduler, node: str, why: str) -> None:
    """Write a new reason to a node that drains with ours; leave any other node as it is."""
    status = scheduler.status([node])[node]
    if status.is_ours and status.reason != our_reason(why):
        scheduler.drain(node, our_reason(why))


def give_back(
    scheduler: Scheduler, node: str, *, drained_by_us: bool, clock: Clock = Clock()
) -> StepOutcome:
    """Return a node to service, if it was us who took it out.

    Args:
        drained_by_us: whether we did; then Slurm may have written a reason of its own over ours.
    """
    status = _settled(scheduler, node, lambda each: each.up, clock)
    if not status.drains and status.up:
        return StepOutcome()  # somebody did it, or there is no scheduler
    if not status.up and not is_foreign(status):
        text = f"its daemon does not answer the scheduler: {status.text}; it stays out of service"
        return StepOutcome(ExitCode.UNKNOWN, text)
    if not (status.is_ours or (drained_by_us and status.reason in _OF_SLURM)):
        text = f"somebody else took it out: {status.text}. Return it by hand: "
        return StepOutcome(ExitCode.PENDING, text + scheduler.resume_command(node))
    scheduler.resume(node)
    status = _settled(scheduler, node, lambda each: each.up and not each.drains, clock)
    if status.up and not status.drains:
        return StepOutcome()
    return StepOutcome(ExitCode.UNKNOWN, f"it was resumed, and is not in service: {status.text}")


def _settled(
    scheduler: Scheduler, node: str, settled: Callable[[NodeStatus], bool], clock: Clock
) -> NodeStatus:
    """Return a node's state when it is as it should be, or when _SETTLE_S have passed."""
    deadline = clock.now() + _SETTLE_S
    while True:
        status: Mapping[str, NodeStatus] = scheduler.status([node])
        if settled(status[node]) or clock.now() >= deadline:
            return status[node]
        clock.pause(POLL_S)
