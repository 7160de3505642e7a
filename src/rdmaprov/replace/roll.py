"""A fleet that is taken through the steps while jobs run on it.

No more than some units are out of service at once: those that are worked on, and those whose jobs
still run. Units without a job go first, and no empty node that we drained waits for another one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.batches import Batches
from rdmaprov.replace.steps import DRAIN, IN_PROGRESS, Replacement, Stopped, runs_elsewhere
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.model import MARK, NodeStatus
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.service import POLL_S, is_foreign
from rdmaprov.scheduler.units import MaintenanceUnit
from rdmaprov.words import duration

_NODE_S = 0.001  # more between two looks for each node that is looked at; our choice


def is_left_alone(status: NodeStatus, verb: str) -> bool:
    """Return whether a node waits for somebody else, or for another verb that drained it."""
    other_verb = status.is_ours and not status.reason.startswith(f"{MARK} {verb} ")
    return is_foreign(status) or other_verb


@dataclass
class Roll:
    """Takes units out of service, has them proven, and goes on until none is left."""

    queue: list[MaintenanceUnit]  # the units, in their order; at the end, those that did not begin
    most: int  # the units that may be out of service at once; until one is proven, one alone
    most_failed: int  # the nodes that may stay out of service before no new one starts
    member: Callable[[Sequence[str]], Replacement]
    batches: Batches
    ended: dict[str, Stopped] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with all nodes in service."""
        self._all = self.member(())
        self._out: dict[str, MaintenanceUnit] = {}  # by node that is out of service
        self._waiting: dict[str, float] = {}  # of those, whose jobs still run, with its deadline
        self._is_over = False

    def run(self) -> None:
        """Go through the units; an interrupt returns the nodes whose jobs still run to service."""
        try:
            while self._out or (self.queue and not self._is_over):
                self._advance()
                self._all.clock.pause(POLL_S + _NODE_S * len(self.queue))
        finally:
            self.batches.stop()
            self._collect()
            self._let_go(self._waiting, "not started")

    def _advance(self) -> None:
        self._collect()
        self._is_over |= sum(each.stays for each in self.ended.values()) > self.most_failed
        try:
            if not self._is_over:
                self._look()
        except SchedulerError as error:
            self._all.tell(f"{error.message}: no new node starts")
            self._is_over = True
        if self._is_over:
            self._let_go(self._waiting, "not started")

    def _collect(self) -> None:
        for batch in self.batches.ended():
            for node, stopped in batch.items():
                self._end(node, stopped)

    def _end(self, node: str, stopped: Stopped) -> None:
        self.ended[node] = stopped
        self._out.pop(node, None)
        self._waiting.pop(node, None)
        if stopped.code is not ExitCode.OK:
            self._all.tell(f"{node}: {stopped.step}: {stopped.text}")

    def _let_go(self, nodes: Collection[str], why: str) -> None:
        """Return nodes whose jobs still run to service, unproven."""
        back = self.member([*nodes]).release() if nodes else []
        for node in list(nodes):
            text = f"{why}; {'back in service' if node in back else 'it stays drained'}"
            self._end(node, Stopped(ExitCode.UNKNOWN, DRAIN, text, node not in back))

    def _look(self) -> None:
        """Ask the scheduler, drain what may go next, and begin with what is empty."""
        has_room = self.batches.has_room()
        queue = [node for unit in self.queue for node in unit.nodes] if has_room else []
        status = {**self._all.scheduler.status([*self._waiting, *queue])}
        self._leave_alone(status)
        chosen = self._chosen(status) if has_room else []
        self._waiting |= dict.fromkeys(chosen, self._all.clock.now() + self._all.wait_s)
        self.member(chosen).drain_each()
        status |= self._all.scheduler.status(chosen)
        ready = [node for node in self._waiting if status[node].is_empty]
        for node in set(chosen) - set(ready):
            self._all.tell(f"{node}: {status[node].text}; drained")
        self._waiting = {node: at for node, at in self._waiting.items() if node not in ready}
        if ready:
            self._all.tell(f"batch: {fold_names(ready)}")
            self.batches.start(ready)

    def _leave_alone(self, status: Mapping[str, NodeStatus]) -> None:
        """Let go what somebody else or another run has by now, and what is busy for too long."""
        verb, now, most = self._all.verb, self._all.clock.now(), duration(self._all.wait_s)
        waiting = {node: status[node] for node in self._waiting}
        lost = runs_elsewhere(status, verb, self._all.journal) | self._all.taken(waiting)
        for node, each in status.items():
            is_back = node in waiting and each.up and not each.drains
            if node in lost or is_back or is_left_alone(each, verb):
                text = lost[node].text if node in lost else f"left alone: {each.text}"
                self._end(node, Stopped(ExitCode.UNKNOWN, DRAIN, text))
            elif node in waiting and each.busy and now >= self._waiting[node]:
                self._let_go([node], f"still in use after {most}: {each.text}")
        rest = ((unit, [n for n in unit.nodes if n not in self.ended]) for unit in self.queue)
        self.queue = [MaintenanceUnit(tuple(nodes), unit.domains) for unit, nodes in rest if nodes]

    def _chosen(self, status: Mapping[str, NodeStatus]) -> list[str]:
        """Return the nodes to drain now: of the units with the fewest busy nodes first.

        Before them, those that an interrupted run left drained, and so empty.
        """
        places = self.most if any(not each.code for each in self.ended.values()) else 1
        held = set(self._out.values())
        owned = {domain for unit in held for domain in unit.domains}
        rank = {
            unit: (
                not any(IN_PROGRESS in status[node].reason for node in unit.nodes),
                sum(status[node].busy for node in unit.nodes),
            )
            for unit in self.queue
        }
        chosen: list[str] = []
        for unit in sorted(self.queue, key=rank.__getitem__):
            if len(held) < places and owned.isdisjoint(unit.domains):
                held.add(unit)
                owned.update(unit.domains)
                self._out |= dict.fromkeys(unit.nodes, unit)
                chosen += unit.nodes
        self.queue = [unit for unit in self.queue if unit not in held]
        return chosen
