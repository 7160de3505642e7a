"""Survey all nodes of a fleet at the same time: one connection and one command per node."""

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rdmaprov.apply.events import parse_survey
from rdmaprov.apply.results import ProbeResult
from rdmaprov.drift import collection
from rdmaprov.drift.arguments import Arguments, NotCertain
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.ansible_api import import_plugin
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError, NodeUnreachable
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Takeover
from rdmaprov.problem import printable

PROTOCOL = 1  # as module_utils.probed has it
# Listing a new initramfs takes about 20 s on one slow core.
SURVEY_LIMIT_S = 90
_AT_ONCE = 1024  # nodes whose arguments are in memory at the same time
# The archive stays in memory, and zipimport reads it from there: nothing is written to disk.
_BOOT = """\
import os,sys
f=os.memfd_create("survey")
with open(f,"wb",closefd=False) as z:z.write(sys.stdin.buffer.read({size}))
sys.path.insert(0,"/proc/self/fd/%d"%f)
from {package}.probed import main
main()
"""


def judge_answer(answer: Answer | NodeError, roles: Collection[str]) -> ProbeResult:
    """Return the result of a probe."""
    if isinstance(answer, NodeError):
        lost = isinstance(answer, NodeUnreachable)
        return ProbeResult(printable(str(answer)), unreachable=lost)
    if answer.rc != 0:
        lines = answer.err.strip().splitlines() or ["no reason given"]
        return ProbeResult(printable(f"survey failed with exit code {answer.rc}: {lines[-1]}"))
    try:
        data = json.loads(answer.out)
    except (ValueError, RecursionError):
        return ProbeResult("survey output is not JSON")
    if not isinstance(data, Mapping) or data.get("protocol") != PROTOCOL:
        return ProbeResult(f"survey output has another protocol than {PROTOCOL}")
    answers = import_plugin("plugin_utils.answers")
    try:
        checked = answers.survey_answer(data, roles)
    except answers.Odd as error:
        return ProbeResult(printable(f"survey output {error}"))
    return ProbeResult(_reasons(checked), parse_survey(checked), tuple(checked["warnings"]))


def _reasons(data: Mapping[str, Any]) -> str:
    """Return why Ansible must run on a node that was surveyed, empty if it need not."""
    reasons = list(data["problems"])
    if data["pending"]:
        reasons.append(f"pending: {', '.join(data['pending'])}")
    reboot = [reason for entry in data["roles"].values() for reason in entry["reboot"]]
    if reboot:
        reasons.append("reboot required: " + ", ".join(reboot))
    return printable("; ".join(reasons))


def probe_fleet(
    fleet: Fleet,
    roles: Sequence[str],
    become_password: str = "",
    count: Callable[[], None] = lambda: None,
    tell: Callable[[Takeover], None] = lambda _took: None,
) -> dict[str, ProbeResult]:
    """Return the probe's result for each node, by name; Ansible does not run.

    Args:
        roles: names of the roles; empty for all.
        become_password: typed by the user; a node with a password of its own uses that.
        count: called once per node, when it has answered or failed.
        tell: called for each relay that was asked in the place of another one.
    """
    arguments, targets = Arguments(fleet, roles), FleetTargets(fleet, become_password)
    found: dict[str, ProbeResult] = {}
    everyone = [node.name for node in fleet.nodes]
    for names in (everyone[at : at + _AT_ONCE] for at in range(0, len(everyone), _AT_ONCE)):
        reached: dict[str, Target] = {}
        given: dict[str, bytes] = {}
        for name in names:
            try:
                given[name] = request(arguments.of(name))
                reached[name] = targets.of(name)
            except NotCertain as error:
                found[name] = ProbeResult(printable(str(error)))
            except NodeError as error:
                # Not unreachable: Ansible may know a way.
                found[name] = ProbeResult(printable(str(error)))
        found.update(_survey_nodes(reached, given, arguments, count, tell))
    return {name: _drop_name(name, found[name]) for name in everyone}


def _drop_name(name: str, one: ProbeResult) -> ProbeResult:
    """Return a result without the node's name, so that equal results can be grouped."""
    return replace(one, why=one.why.removeprefix(f"{name}: "))


def _survey_nodes(
    reached: Mapping[str, Target],
    given: Mapping[str, bytes],
    arguments: Arguments,
    count: Callable[[], None],
    tell: Callable[[Takeover], None],
) -> dict[str, ProbeResult]:
    commands = {name: survey_command(target, given[name]) for name, target in reached.items()}
    probe = Probe(reached, is_patient=False)  # Ansible asks a silent node again
    try:
        answers = probe.run_all(commands, count)
    finally:
        probe.close()
    for took in probe.taken:
        tell(took)
    return {name: judge_answer(answer, arguments.roles) for name, answer in answers.items()}


def request(
    arguments: Mapping[str, Any],
    *,
    record: bool = False,
    answers: Mapping[str, Any] | None = None,
    reboots: bool = False,
) -> bytes:
    """Return what a survey reads behind its code; see module_utils.probed.

    Args:
        arguments: by role.
        answers: the readings to survey in place of a machine.
        reboots: whether a node that requires a reboot gets it.
    """
    asked = {"arguments": arguments, "reboots": reboots, "record": record, "answers": answers}
    return json.dumps(asked).encode()


def boot() -> str:
    """Return the program of a survey, which reads its code and its request."""
    return _BOOT.format(size=len(collection.archive()), package=collection.PACKAGE)


def survey_command(target: Target, given: bytes) -> Command:
    """Return the command of a survey; its standard input has the code and the request."""
    text = f"{target.interpreter} -I -S -c {shlex.quote(boot())}"
    return Command(text, SURVEY_LIMIT_S, given, collection.archive())
