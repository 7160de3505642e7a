"""One run of Ansible on the nodes of a site: shown, logged, and its results written."""

import os
import shlex
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ansible.utils.helpers import pct_to_int

from rdmaprov.apply.events import NodeEvent, parse_event
from rdmaprov.apply.progress import ApplyProgress
from rdmaprov.apply.relays import NodeWay, RelayJob, find_ways, run_all
from rdmaprov.apply.results import NodeResult, ProbeResult, Results
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet
from rdmaprov.probe.fleet import find_target
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Takeover, relays_data
from rdmaprov.problem import printable
from rdmaprov.resources import data_dir
from rdmaprov.runner import run_ansible
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.masks import Mask
from rdmaprov.runs.screen import Screen
from rdmaprov.terminal import Line


class AnsibleFailed(RdmaprovError):
    """Ansible failed, and not because of a node."""

    exit_code = ExitCode.UNKNOWN


@dataclass(frozen=True)
class ApplyRequest:
    """What a user asks of plan or apply.

    Args:
        verb: "plan", "apply" or "revert".
        roles: names of the roles; empty for all.
        waivers: the problems of the site that it accepts, for results.json.
        is_part: whether the nodes are fewer than the limit selects.
        reverts: the name of the run that revert takes back.
    """

    verb: str
    site: Path
    nodes: tuple[str, ...]
    limit: str | None
    roles: tuple[str, ...]
    variables: Mapping[str, object]
    arguments: tuple[str, ...]
    waivers: Sequence[Mapping[str, Any]] = ()
    is_part: bool = False
    reverts: str = ""


class Run:
    """A run with its directory; see `open_run`."""

    def __init__(
        self,
        request: ApplyRequest,
        directory: RunDirectory,
        screen: Screen,
        find: Callable[[str], Target | None],
        way: Callable[[str], NodeWay],
    ) -> None:
        self._request = request
        self._find = find
        self._way = way
        self.directory = directory
        self._screen = screen
        self._started = datetime.now(UTC)
        self._last_error = ""
        self._probed: Mapping[str, ProbeResult] = {}
        self._settled: dict[str, NodeResult] = {}
        self._taken: list[Takeover] = []
        self._nodes = request.nodes
        self._variables = dict(request.variables)

    @property
    def path(self) -> Path:
        """Return the run's directory."""
        return self.directory.path

    def add_variables(self, variables: Mapping[str, object]) -> None:
        """Add variables for the playbook."""
        self._variables.update(variables)

    def leave_out_proven(self, probed: Mapping[str, ProbeResult]) -> None:
        """Run Ansible only on the nodes that the probe could not verify."""
        self._probed = probed
        self._nodes = tuple(name for name in self._request.nodes if probed[name].why)
        for name, one in probed.items():
            for warning in one.warnings:
                self._log(f"[WARNING]: {name}: {warning}")
            self._log(f"{name}: {one.why or 'unchanged, verified by the probe'}")

    def note_relay(self, took: Takeover) -> None:
        """Note that a relay is asked in the place of another one; say so."""
        self._taken.append(took)
        self._log(took.text)
        self._screen.remark(Line(took.text, "yellow"))

    def settle(self, nodes: Iterable[NodeResult]) -> None:
        """Run Ansible no more on some nodes; they have their results."""
        self._settled |= {node.name: node for node in nodes}
        self._nodes = tuple(name for name in self._nodes if name not in self._settled)

    def part(self, nodes: Sequence[str]) -> "Run":
        """Return a run of Ansible on some of the nodes, with the same directory."""
        own = replace(self._request, nodes=tuple(nodes), variables=self._variables, is_part=True)
        run = Run(own, self.directory, self._screen, self._find, self._way)
        run._taken = self._taken
        return run

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that Ansible runs on."""
        return self._nodes

    def results_so_far(self, *, interrupted: bool) -> Results:
        """Return the results before Ansible starts."""
        results = self._results(applies=True)
        results.interrupted = interrupted
        return results

    def _results(self, *, applies: bool) -> Results:
        results = Results(self._request.nodes, applies=applies, probed=self._probed)
        results.nodes.update(self._settled)
        return results

    def run_playbook(self, verb: str, *, only_shows: bool = False) -> Results:
        """Run a verb's playbook; return the results, on an interrupt those so far.

        Raises:
            AnsibleFailed: Ansible failed, and not because of a node.
        """
        if not self._nodes:
            return self.results_so_far(interrupted=False)
        results = self._results(applies=verb != "plan" and not only_shows)
        self._variables["revert_only_shows"] = only_shows
        progress = ApplyProgress(self._screen, verb, len(self._nodes))
        with progress.meter:
            try:
                code = self._run_batches(verb, results, progress)
            except KeyboardInterrupt:
                results.interrupted = True
                return results
        if code != 0 and results.exit_code() in (ExitCode.OK, ExitCode.UNKNOWN):
            self._raise_unexplained(code, results)
        return results

    def _raise_unexplained(self, code: int, results: Results) -> None:
        """Raise if Ansible failed and no node has a problem."""
        if any(node.problem for node in results.nodes.values()):
            return
        self.write(results)
        why = self._screen.mask_text(printable(self._last_error)) or "no reason given"
        raise AnsibleFailed(
            f"Ansible failed with exit code {code}: {why}",
            f"See {self.path / 'logs' / 'ansible.log'}",
        )

    def _run_batches(self, verb: str, results: Results, progress: ApplyProgress) -> int:
        """Run Ansible; a batch is of nodes by any way, so with relays it is none of Ansible's."""
        names, variables = self._nodes, self._variables
        by_relay = any(self._way(name).relays for name in names)
        if "apply_serial" not in variables or not by_relay:
            return self._run_ansible(verb, names, variables, results, progress)
        own = {**variables, "apply_serial": "100%", "apply_max_failures": 100}
        most = float(str(variables.get("apply_max_failures", 100)))
        size = int(pct_to_int(str(variables["apply_serial"]), len(names)))
        for first in range(0, len(names), size):
            batch = names[first : first + size]
            code = self._run_ansible(verb, batch, own, results, progress)
            ended = [results.nodes[name] for name in batch]
            failed = sum(bool(node.failed) for node in ended)
            if failed * 100 > most * len(batch) or all(n.failed or n.unreachable for n in ended):
                break
        return code

    def _run_ansible(
        self,
        verb: str,
        nodes: Sequence[str],
        variables: Mapping[str, object],
        results: Results,
        progress: ApplyProgress,
    ) -> int:
        """Run Ansible on nodes, here and from all relays at the same time; return its exit code."""
        turn = threading.Lock()

        def handle(event: Mapping[str, Any]) -> bool:
            # Results first: ansible-runner ignores the error of a full disk or a closed terminal.
            with turn:
                parsed = parse_event(event, self._find)
                self._record(parsed, str(event.get("stdout") or ""), results, progress)
            return False  # ansible-runner need not write it to a file

        def lose(names: Iterable[str], why: str, is_all: bool) -> None:
            for name in names:
                node = results.nodes[name]
                if is_all or not node.finished:
                    role = node.running or node.under_way
                    event = NodeEvent("unreachable", name, role, "", message=why)
                    with turn:
                        self._record(event, f"{name}: {why}", results, progress)

        def move(names: Iterable[str], took: Takeover) -> list[str]:
            with turn:
                self.note_relay(took)
                return [name for name in names if not results.nodes[name].finished]

        settings: dict[str, dict[str, Any]] = {
            "extravars": {"apply_roles": list(self._request.roles), **variables},
            "envvars": {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"},
        }
        found = {name: self._way(name) for name in nodes}
        here = [name for name, way in found.items() if not (way.relays or way.lost)]
        gone = {each.relay for each in self._taken}  # in an earlier batch
        owns: dict[tuple[Target, ...], dict[str, dict[str, Any]]] = {}
        for name, way in found.items():
            if way.lost:
                lose([name], way.lost, True)
            elif way.relays:
                relays = tuple(sorted(way.relays, key=lambda each: each.name in gone))
                owns.setdefault(relays, {})[name] = way.values
        jobs = [RelayJob(relays, own, verb, settings) for relays, own in owns.items()]
        return run_ansible(
            len(here),
            partial(run_all, jobs, handle, lose, move) if len(here) < len(nodes) else None,
            playbook=str(data_dir("playbooks") / f"{verb}.yml"),
            inventory=str(self._request.site.resolve()),
            limit=self._limit(here),
            cmdline=shlex.join(self._request.arguments) or None,
            event_handler=handle,
            **settings,
        )

    def _record(
        self, event: NodeEvent | None, output: str, results: Results, progress: ApplyProgress
    ) -> None:
        if event is not None and event.node not in results.nodes:
            event = None
        node = results.record(event) if event is not None else None
        self._log(output)
        self._screen.detail(output)
        if event is not None and node is not None:
            progress.show_event(event, node)

    def _limit(self, nodes: Sequence[str]) -> str | None:
        whole = tuple(nodes) == self._request.nodes and not self._request.is_part
        if whole and not self._probed:
            return self._request.limit
        # A file: the names of 10,000 nodes are longer than an argument may be.
        name = f"nodes-{os.getpid()}"  # others may do other parts
        self.directory.write_lines(name, nodes)
        return f"@{self.path / name}"

    def _log(self, text: str) -> None:
        self.directory.log(text)
        for line in text.splitlines():
            if line.startswith("[ERROR]: "):
                self._last_error = line.removeprefix("[ERROR]: ").strip()

    def write(self, results: Results) -> str:
        """Write results.json; return its text."""
        results.relays = self._taken
        return self.directory.write_results(
            document(self._request, self._started, datetime.now(UTC), results)
        )


def document(
    request: ApplyRequest, started: datetime, ended: datetime, results: Results
) -> dict[str, Any]:
    """Return results.json, as docs/results.schema.json defines it."""
    head = Head(request.verb, request.site, request.limit, started, request.waivers)
    more: dict[str, Any] = {"roles": list(request.roles), **relays_data(results.relays)}
    more |= {"reverts": request.reverts} if request.reverts else {}
    return results_document(head, ended, results.exit_code(), results.as_data(), more)


@contextmanager
def open_run(
    request: ApplyRequest, fleet: Fleet, become: str, mask: Mask, screen: Screen
) -> Iterator[Run]:
    """Provide a run with a new directory.

    Args:
        become: sudo's password on nodes that have none of their own.
    """
    with RunDirectory(request.verb, mask) as directory:
        yield Run(request, directory, screen, find_target(fleet), find_ways(fleet, become))
