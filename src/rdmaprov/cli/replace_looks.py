"""The first steps of `rdmaprov replace`: whose machine it is, and what it is made of."""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from rdmaprov.acceptance.launchers.choice import LaunchChoice, choose
from rdmaprov.acceptance.options import Options, parse_duration
from rdmaprov.acceptance.stage_report import parse_stages
from rdmaprov.cli import accept_run, node_proofs, session
from rdmaprov.cli.replace_work import Work
from rdmaprov.discover import variables
from rdmaprov.discover.variables import Difference
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Node
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.problem import printable
from rdmaprov.replace import hardware, host_key
from rdmaprov.replace.host_key import HostKey
from rdmaprov.replace.journal import identity_of
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.service import StepOutcome
from rdmaprov.terminal import Line

# A reservation of witnesses ends by then, if this process is killed; our choice, as a gate of tens
# of nodes takes minutes.
_HOLD_S = 2 * 3600.0
_TRIES = 3  # a job may start on a witness before it is held
_PATHS = "test_path.py"
_HERE = "this machine"
Found = Mapping[str, tuple[list[Difference], list[Difference]]]


class Proofs:
    """Proves nodes; see `Replacement.proofs`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def apply(self, nodes: Sequence[str]) -> StepOutcome:
        """Apply on these nodes alone, with a reboot where one is required."""
        asked = self._work.asked
        reboots = {"apply_reboot": "if-needed"}
        part = self._work.only(nodes)
        return node_proofs.apply_nodes(asked.site, part, asked.wait_s, variables=reboots)

    def validate(self, nodes: Sequence[str]) -> StepOutcome:
        """Validate these nodes alone."""
        return node_proofs.validate_nodes(self._work.asked.site, self._work.only(nodes))

    def accept(self, nodes: Sequence[str]) -> StepOutcome:
        """Measure nodes with witnesses that are known good and idle, and the paths between them."""
        busy: list[str] = []
        self._release_held()
        for _ in range(_TRIES):
            witnesses = self._work.witnesses(busy)
            if not witnesses:
                break
            with self._held(witnesses):
                status = self._work.witness_scheduler.status(witnesses)
                started = [name for name in witnesses if status[name].busy]
                if not started:
                    return self._measure(nodes, witnesses)
                busy += started
        text = "no other node is known good (a passed accept) and idle to measure with. "
        named = "Accept the fleet first, wait for an idle node, or name idle ones: --witnesses"
        return StepOutcome(ExitCode.UNKNOWN, text + named)

    def _measure(self, nodes: Sequence[str], witnesses: Sequence[str]) -> StepOutcome:
        self._work.tell(f"witnesses: {fold_names(witnesses)}")
        everyone = (*nodes, *witnesses)
        ready = self._work.only(everyone)
        paths = node_proofs.validate_nodes(self._work.asked.site, ready, _PATHS)
        if not paths.is_ok:
            return paths
        chosen = choose(ready.fleet.nodes, "", "")
        if chosen.is_job:
            self._work.tell("ranks are started over ssh: a drained node gets no job")
            chosen = LaunchChoice("ssh")
        sizes, stages, soak = self._work.asked.sizes, parse_stages(""), parse_duration("")
        options = Options("auto", sizes, False, True, None, stages, soak, True)
        site, limit = self._work.asked.site, ",".join(everyone)
        result, path = accept_run.run_gate(site, limit, ready, options, chosen)
        named = sorted({name for finding in result.findings for name in finding.nodes})
        at_fault = f"; findings about {fold_names(named)}" if named else ""
        return node_proofs.outcome_of_run(result.exit_code(), f"accept, {path}{at_fault}")

    def _release_held(self) -> None:
        """End what a killed run has held: a reserved node is not idle, and no witness."""
        first = self._work.asked.nodes[0]
        if before := self._work.journal.get(first, "held"):
            self._work.scheduler.release(before, self._label())
            self._work.journal.note(first, held=[])

    @contextmanager
    def _held(self, witnesses: Sequence[str]) -> Iterator[None]:
        """Keep jobs off witnesses."""
        scheduler, journal = self._work.witness_scheduler, self._work.journal
        first, label = self._work.asked.nodes[0], self._label()
        journal.note(first, held=list(witnesses))
        try:
            scheduler.hold(witnesses, label, _HOLD_S)
            yield
        finally:
            scheduler.release(witnesses, label)
            journal.note(first, held=[])

    def _label(self) -> str:
        """Return the reservation's name, the same for a site and its nodes in each run."""
        words = "\n".join([str(self._work.asked.site.resolve()), *self._work.asked.nodes])
        return f"rdmaprov-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


class Looks:
    """Looks at the new machines; see `Replacement.looks`."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def host_key(self, nodes: Sequence[str]) -> StepOutcome:
        """Verify each host key; learn those that the user allows. Nothing is sent before."""
        targets = FleetTargets(self._work.ready.fleet, self._work.ready.given.become)
        for node in nodes:
            target = targets.of(node)
            key = host_key.look(target)
            if key is not None and not key.is_known:
                if (why := self._refusal(node, key)) is not None:
                    return why
                file = host_key.learn(target, key)
                self._work.tell(f"{node}: its new host key is in {file}")
            self._work.machines[node] = key.fingerprint if key is not None else _HERE
        return StepOutcome()

    def _refusal(self, node: str, key: HostKey) -> StepOutcome | None:
        """Return why a key may not be learnt, None if the user allows it; show both keys."""
        for line in key_lines(node, key):
            self._work.ready.screen.show(Line(line))
        allowed = self._work.asked.host_keys.get(node)
        if allowed is not None and allowed != key.fingerprint:
            text = f"{node} shows {key.fingerprint}, and --host-key allows {allowed}"
            return StepOutcome(ExitCode.UNKNOWN, f"{text}; nothing was sent to it")
        question = f"Is {key.fingerprint} the key that the console of {node} shows?"
        if allowed or (sys.stdin.isatty() and click.confirm(question, err=True)):
            return None
        text = f"the host key of {node} is not verified, and nothing was sent to it. "
        compare = "Compare it on the node's console (ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub), "
        return StepOutcome(
            ExitCode.UNKNOWN, f"{text}{compare}then pass --host-key {key.fingerprint}"
        )

    def compare(self, nodes: Sequence[str]) -> StepOutcome:
        """Compare each machine with the host variables; write those on a yes."""
        work = self._work
        answers = work.read(nodes)
        for node in nodes:
            if node not in answers.facts:
                why = work.ready.mask.text(answers.failures.get(node, "no answer"))
                return StepOutcome(ExitCode.UNKNOWN, f"{node}: {why}")
        work.facts.update(answers.facts)
        different = differences(work, nodes)
        for line in (*machine_lines(work, nodes), *difference_lines(different)):
            work.ready.screen.show(Line(line))
        written = {node: own for node, (own, _) in different.items() if own}
        if written and not self._may_write(written):
            text = "host variables describe the old machine. Pass --yes to write what the new one"
            return StepOutcome(ExitCode.PENDING, f"{text} has, or edit host_vars")
        for node, own in written.items():
            found = {each.name: each.seen for each in own}
            variables.merge_host_vars(work.asked.site, node, found)
        if written:
            work.ready = session.check_site(work.asked.site, None, work.ready.given, None)
        for each in work.replaced.fleet.nodes:
            work.journal.bind(each.name, identity_of(each.values, _machine(work, each.name)))
        return StepOutcome()

    def _may_write(self, written: Mapping[str, Sequence[Difference]]) -> bool:
        if self._work.asked.yes:
            return True
        files = ", ".join(f"host_vars/{node}" for node in written)
        return sys.stdin.isatty() and click.confirm(f"Write this to {files}?", err=True)


def _machine(work: Work, node: str) -> str:
    """Return what tells a machine from another: its host key, and the places of its GPUs.

    Not its RDMA devices, which are not there before their driver is.
    """
    gpus = ",".join(str(gpu["pci"]) for gpu in work.facts[node]["gpus"])
    return f"{work.machines.get(node, _HERE)} {gpus}"


def key_lines(node: str, key: HostKey) -> Iterator[str]:
    """Yield a node's known and its new host key."""
    old = ", ".join(key.old) or "none"
    yield f"{node}: host key that is known: {old}"
    yield f"{node}: host key that it shows:  {key.fingerprint} ({printable(key.kind)})"


def machine_lines(work: Work, nodes: Sequence[str]) -> Iterator[str]:
    """Yield what the new machine has otherwise than the one that was last returned here."""
    for node in nodes:
        old = hardware.kept(work.journal.directory, node)
        for line in hardware.changes(old, hardware.describe(work.facts[node])) if old else ():
            yield f"{node}: {printable(line)}"


def differences(work: Work, nodes: Sequence[str]) -> Found:
    """Return by node the differences from its own host variables, and from those of its groups."""
    found = {}
    for node in work.only(nodes).fleet.nodes:
        known = variables.host_variables(work.facts[node.name], node)
        _, different = variables.compare(known, node)
        own = [each for each in different if _is_own(node, each.name)]
        found[node.name] = (own, [each for each in different if each not in own])
    return found


def _is_own(node: Node, name: str) -> bool:
    """Return whether a variable is written for this node alone; a group's is a demand."""
    path = Path(node.locate(name).file)
    return path.parent.name == "host_vars" and path.stem == node.name


def difference_lines(different: Found) -> Iterator[str]:
    """Yield each difference."""
    for node, (own, demands) in different.items():
        for each in own:
            yield f"{node}: {printable(each.text)}"
        for each in demands:
            yield f"{node}: {printable(each.text)}: set for its group, so it stays"
        if not own and not demands:
            yield f"{node}: the machine is as its host variables say"
