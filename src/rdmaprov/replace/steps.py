"""The order of the steps, and what may never happen between them.

A node that we drained keeps our reason until it is resumed, and it is resumed only with proofs of
all steps, read again from the journal. Each step can fail or be killed at any point; the same
command then goes on from there. The reason says which controller is at work, so that another
operator's run does not begin beside it; what that one proved before, this one proves again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rdmaprov.errors import RdmaprovError, UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.journal import Journal
from rdmaprov.scheduler import service
from rdmaprov.scheduler.model import NodeStatus, Scheduler, our_reason
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.service import Clock, StepOutcome

APPLY, VALIDATE, ACCEPT = PROOFS = ("apply", "validate", "accept")
DRAIN, RETURN = "drain", "return"
IN_PROGRESS = "in progress on"


@dataclass(frozen=True)
class Step:
    """A step before the return."""

    name: str
    act: Callable[[Sequence[str]], StepOutcome]  # does it on nodes; OK only if all of them passed
    is_alone: bool = False  # whether a node passes whatever the others show


@dataclass(frozen=True)
class Stopped:
    """How a replacement ended."""

    code: ExitCode = ExitCode.OK
    step: str = ""  # that it stopped at; empty if all nodes are in service
    text: str = ""
    stays: bool = False  # whether a node stays out of service


@dataclass(frozen=True)
class Replacement:
    """Takes nodes through the steps."""

    nodes: tuple[str, ...]
    # steps that are done each time, before the drain; they change nothing on nodes
    looks: Sequence[Step]
    proofs: Sequence[Step]  # by name in PROOFS, the steps whose success is kept
    scheduler: Scheduler
    journal: Journal
    wait_s: float  # seconds to wait for jobs
    take_over: bool = False  # replace the reason of who drained a node before
    tell: Callable[[str], None] = lambda _text: None
    clock: Clock = field(default_factory=Clock)
    verb: str = "replace"
    label: str = ""  # what else our reasons say, such as the number of a ticket

    def run(self) -> Stopped:
        """Do all steps; stop at the first one that fails."""
        drain, back = Step(DRAIN, self._drain), Step(RETURN, self._return)
        for step in (*self.looks, drain, *self.proofs, back):
            outcome = self._attempt(step)
            if not outcome.is_ok:
                self._leave_reason(step, outcome)
                return Stopped(outcome.code, step.name, outcome.text)
        return Stopped()

    def _attempt(self, step: Step) -> StepOutcome:
        try:
            return self._prove(step) if step in self.proofs else self._do(step, self.nodes)
        except UsageError:
            raise
        except RdmaprovError as error:
            return StepOutcome(error.exit_code, f"{error.message}. {error.hint}")

    def drain_each(self) -> None:
        """Look at nodes and drain them, without waiting for jobs."""
        for look in self.looks:
            look.act(self.nodes)
        replace(self, wait_s=0)._drain(self.nodes)

    def run_each(self) -> dict[str, Stopped]:
        """Prove and return nodes that are drained and empty; return as it was what is untouched."""
        ended: dict[str, Stopped] = {}
        begun = {node for node in self.nodes if self.journal.get(node, "begun")}
        for step in (*self.proofs, Step(RETURN, self._return)):
            left = self.nodes
            while left := tuple(node for node in left if node not in ended):
                part = replace(self, nodes=left)
                if (outcome := part._attempt(step)).is_ok:
                    break
                for node in [each for each in left if not outcome.of(each).is_ok] or left:
                    ended[node] = replace(self, nodes=(node,))._stop(step, outcome, begun)
                if step.name == RETURN:  # who was returned has no proofs any more
                    left = tuple(node for node in left if self.journal.is_proven(node))
        return {node: ended.get(node, Stopped()) for node in self.nodes}

    def _stop(self, step: Step, outcome: StepOutcome, begun: Collection[str]) -> Stopped:
        """Release the one node or say why it stays; `begun` has those begun in an earlier run."""
        (node,) = self.nodes
        its = outcome if (each := outcome.of(node)).is_ok else each
        if its.untouched and node not in begun:
            self.journal.note(node, begun=False)
        is_back = bool(self.release())
        self._leave_reason(step, its)
        return Stopped(its.code, step.name, its.text, not is_back)

    def release(self) -> list[str]:
        """Return nodes to service that we drained, and that no step has begun to change."""
        found: list[str] = []
        with suppress(SchedulerError):
            for node, status in self.scheduler.status(self.nodes).items():
                is_left = status.is_ours and self.journal.left(node, status.reason)
                if is_left and status.up and not self.journal.get(node, "begun"):
                    self.scheduler.resume(node)
                    self.journal.close(node)
                    found.append(node)
        return found

    def _do(self, step: Step, nodes: Sequence[str]) -> StepOutcome:
        self.tell(step.name)
        return step.act(nodes)

    def _prove(self, step: Step) -> StepOutcome:
        """Do a step on the nodes that have not passed it, while no other run has them."""
        if not (held := self._still_held()).is_ok:
            return held
        left = [node for node in self.nodes if not self.journal.has(node, step.name)]
        if not left:
            self.tell(f"{step.name}: passed before")
            return StepOutcome()
        for node in left:
            self.journal.begin(node, step.name)
        outcome = self._do(step, left)
        for node in left:
            if outcome.is_ok or (step.is_alone and outcome.of(node).is_ok):
                self.journal.keep(node, step.name)
        return outcome

    def _drain(self, nodes: Sequence[str]) -> StepOutcome:
        before = self.scheduler.status(nodes)
        if not self.take_over and (elsewhere := runs_elsewhere(before, self.verb, self.journal)):
            return _worst(elsewhere.items())
        why = in_progress(self.verb, self.journal) + self.label
        # Noted first: a kill in between leaves a note without a drain, which resumes nothing.
        for node, status in before.items():
            if not self.journal.holds(node, status):
                self.journal.forget(node, begun=status.is_ours)
            if self.take_over or not service.is_foreign(status):
                self.journal.note(node, drained=True, reason=our_reason(why))
        found = service.take_out(
            self.scheduler,
            nodes,
            why,
            wait_s=self.wait_s,
            take_over=self.take_over,
            tell=self.tell,
            clock=self.clock,
        )
        return _worst(found.items())

    def _still_held(self) -> StepOutcome:
        """Return OK if our nodes are as the drain left them: nobody took or resumed one."""
        found = self.scheduler.status(self.nodes)
        lost = self.taken(found)
        for node, status in found.items():
            if not (out := service.out_of_service(status)).is_ok:
                lost.setdefault(node, out)
        return _worst(lost.items())

    def taken(self, found: Mapping[str, NodeStatus]) -> dict[str, StepOutcome]:
        """Return why nodes are not ours alone any more: another run has one, or had it since."""
        taken = runs_elsewhere(found, self.verb, self.journal)
        for node, status in found.items():
            if status.is_ours and not self.journal.left(node, status.reason):
                text = f"another run has worked on it meanwhile: {status.reason}"
                taken.setdefault(node, StepOutcome(ExitCode.UNKNOWN, text))
        return taken

    def _return(self, nodes: Sequence[str]) -> StepOutcome:
        unproven = [node for node in nodes if not self.journal.is_proven(node)]
        if unproven:  # a proof that grew too old while others were made
            text = f"{', '.join(unproven)}: not all steps are proven any more"
            return StepOutcome(ExitCode.UNKNOWN, text)
        status = self.scheduler.status(nodes)
        if taken := self.taken(status):
            return _worst(taken.items())
        found = []
        for node in nodes:
            ours = bool(self.journal.get(node, "drained"))
            back = service.give_back(self.scheduler, node, drained_by_us=ours, clock=self.clock)
            if back.is_ok:
                self.journal.close(node)
            found.append((node, back))
        return _worst(found)

    def _leave_reason(self, step: Step, outcome: StepOutcome) -> None:
        """Say in the scheduler where each of our nodes stopped; its old reason is ours, too."""
        why = f"{self.verb} stopped at {step.name}: {outcome.code.name.lower()}{self.label}"
        with suppress(SchedulerError):
            found = self.scheduler.status(self.nodes)
            for node, status in found.items():
                if status.is_ours and self.journal.left(node, status.reason):
                    self.journal.note(node, reason=our_reason(why))
                    service.note(self.scheduler, node, why)


def runs_elsewhere(
    found: Mapping[str, NodeStatus], verb: str, journal: Journal
) -> dict[str, StepOutcome]:
    """Return the nodes that another run has, or had when it was killed."""
    own = our_reason(in_progress(verb, journal))
    again = "It ends by itself, or was killed: then run it again where it ran, or"
    return {
        node: StepOutcome(
            ExitCode.UNKNOWN,
            f"another run has it: {each.reason}. {again} rdmaprov replace {node} --take-over",
        )
        for node, each in found.items()
        if each.is_ours and IN_PROGRESS in each.reason and not each.reason.startswith(own)
    }


def in_progress(verb: str, journal: Journal) -> str:
    """Return the reason, without our mark, of nodes that a run has; it says which one."""
    return f"{verb} {IN_PROGRESS} {journal.owner}"


def _worst(found: Iterable[tuple[str, StepOutcome]]) -> StepOutcome:
    """Return one outcome for nodes: failed before unknown before pending, with all texts."""
    pairs = list(found)
    for code in (ExitCode.FAILED, ExitCode.UNKNOWN, ExitCode.PENDING):
        if any(each.code is code for _, each in pairs):
            said = "; ".join(f"{node}: {each.text}" for node, each in pairs if not each.is_ok)
            return StepOutcome(code, said, dict(pairs))
    return StepOutcome()
