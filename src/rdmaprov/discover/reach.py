"""Run the collector on nodes, with Ansible's connection settings."""

import ipaddress
import shlex
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.apply.events import clean_reason
from rdmaprov.boundary import (
    WHY,
    OddAnswer,
    boolean,
    fields,
    integer,
    list_of,
    number,
    parse_answer,
    plain_text,
    text,
)
from rdmaprov.probe.connection import Answer, Command
from rdmaprov.probe.errors import NodeError
from rdmaprov.probe.probe import Probe
from rdmaprov.probe.reasons import lost_reason
from rdmaprov.probe.script import node_script
from rdmaprov.probe.target import Target
from rdmaprov.problem import printable
from rdmaprov.runner import run_ansible

_PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_PCI_PATH = list_of(plain_text(_PCI), 32)
_NETDEV = r"[^\s/:{}]{0,15}"  # IFNAMSIZ is 16, with the final zero
_NUMA = integer(-1, 1023)  # MAX_NUMNODES of the largest kernels
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_ADDRESSES = list_of(plain_text(r"[0-9a-fA-F.:]{2,45}/[0-9]{1,3}"), 256)
_PARTITION = fields(
    {"netdev": plain_text(_NETDEV), "key": plain_text("0x[0-9a-f]{4}"), "addresses": _ADDRESSES}
)
_RAIL = fields(
    {
        "device": plain_text(_NAME),  # IB_DEVICE_NAME_MAX is 64
        "netdev": plain_text(_NETDEV),
        "ports": list_of(plain_text(_NETDEV), 16),
        "pci": plain_text(f"(?:{_PCI})?"),
        "path": _PCI_PATH,
        "numa_node": _NUMA,
        "link_layer": plain_text("Ethernet|InfiniBand|"),
        "state": plain_text(r"[0-9A-Za-z:_ ]{0,32}"),
        "gbps": number(10_000),
        "mtu_bytes": integer(0, 65_536),
        "model": plain_text(r"(?:[0-9a-f]{4}:[0-9a-f]{4})?|[0-9a-f]{4}"),
        "card": plain_text(r"[0-9a-fx:]{0,32}"),
        "unfit": WHY,
        "is_smi": boolean,
        "manages_nvswitch": boolean,
        "driver": plain_text(f"(?:{_NAME})?"),
        "firmware": plain_text(r"[0-9A-Za-z._ -]{0,64}"),
        "default_route": boolean,
        "is_bond": boolean,
        "is_virtual": boolean,
        "addresses": _ADDRESSES,
        "partitions": list_of(_PARTITION, 64),
    }
)
_GPU = fields({"pci": plain_text(_PCI), "path": _PCI_PATH, "numa_node": _NUMA})
_NIC = fields({"pci": plain_text(_PCI), "driver": plain_text(f"(?:{_NAME})?")})
_BYTES = text(r"(?:[0-9a-f]{2})*", most=512 * 1024)
_LLDP = fields({"lldpd": _BYTES, "lldpad": _BYTES, "error": text(most=300)})
_FACTS = fields(
    {
        "lldp": _LLDP,
        "rails": list_of(_RAIL, 256),
        "bare_nics": list_of(_NIC, 256),
        "python_minor": integer(0, 99),
        "gpus": list_of(_GPU, 256),
        "gpu_module": plain_text("open|proprietary|"),
        "memory_bytes": integer(0, 1 << 50),
        "numa_nodes": integer(0, 1024),
        "kernel": plain_text(r"[0-9A-Za-z][0-9A-Za-z._+~-]{0,127}"),
    }
)


def parse_facts(said: str) -> dict[str, Any]:
    """Return what the collector printed.

    Raises:
        OddAnswer: it is not what the collector prints.
    """
    facts: dict[str, Any] = parse_answer(said, _FACTS)
    ports = [each for rail in facts["rails"] for each in (rail, *rail["partitions"])]
    for address in (address for each in ports for address in each["addresses"]):
        try:
            ipaddress.ip_interface(address)
        except ValueError as error:
            raise OddAnswer(f"its answer has a wrong address: {address}") from error
    return facts


COLLECTOR = Path(__file__).with_name("collector.py")
_PYTHON = '{{ ansible_python_interpreter | default("python3") }}'
# It takes a second; a node that does not end would hold up all others.
_MOST_S = 120
_LIMIT_S = f"{{{{ rdmaprov_task_limit_s | default({_MOST_S}) }}}}"
_MOST_REASON = 500  # characters
_NO_PROGRAM = (126, 127)  # a shell's exit status
_EVENTS = {"runner_on_failed", "runner_on_unreachable"}


@dataclass(frozen=True)
class NodeFacts:
    """The facts of each node that was read, and why each other node was not."""

    facts: dict[str, dict[str, Any]]
    failures: dict[str, str]


def read_nodes(
    site: Path,
    nodes: Iterable[str],
    passwords: Sequence[str] = (),
    hear: Callable[[str, bool], None] = lambda _output, _bad: None,
    find: Callable[[str], Target | None] = lambda _node: None,
) -> NodeFacts:
    """Run the collector on the nodes of a site; return the facts of each.

    Args:
        nodes: their names; the site may have hosts that are no nodes.
        hear: called per node with Ansible's output, and whether reading the node failed.
    """
    answers = NodeFacts({}, {})

    def handle(event: dict[str, Any]) -> None:
        _record_event(event, answers, find)
        kind = event.get("event")
        if kind in {"runner_on_ok", *_EVENTS}:
            hear(str(event.get("stdout") or ""), kind != "runner_on_ok")

    with tempfile.TemporaryDirectory(prefix="rdmaprov-") as directory:
        script = Path(directory, COLLECTOR.name)
        script.write_bytes(node_script(COLLECTOR))
        names = Path(directory, "nodes")
        names.write_text("".join(f"{name}\n" for name in nodes))
        run_ansible(
            hosts=len(names.read_text().split()),
            inventory=str(site.resolve()),
            limit=f"@{names}",
            playbook=[{"hosts": "all", "gather_facts": False, "tasks": [_task(script)]}],
            cmdline=shlex.join(passwords) or None,
            event_handler=handle,
        )
    return answers


def read_by_relay(
    targets: Mapping[str, Target | NodeError], hear: Callable[[str, bool], None]
) -> NodeFacts:
    """Run the collector on nodes over their relays, without Ansible; see `read_nodes`."""
    answers, source = NodeFacts({}, {}), node_script(COLLECTOR)
    probe = Probe(targets)
    commands = {
        name: Command(f"{getattr(target, 'interpreter', '')} -", _MOST_S, source)
        for name, target in targets.items()
    }
    try:
        found = probe.run_all(commands)
    finally:
        probe.close()
    for name, answer in found.items():
        why = _why_not(answer)
        try:
            if not why and isinstance(answer, Answer):
                answers.facts[name] = parse_facts(answer.out)
        except OddAnswer as error:
            why = str(error)
        if why:
            answers.failures[name] = printable(why).removeprefix(f"{name}: ")[:_MOST_REASON]
        hear(f"{name}: {answers.failures.get(name, 'read')}", bool(why))
    return answers


def _why_not(answer: Answer | NodeError) -> str:
    if isinstance(answer, NodeError):
        return str(answer)
    return (clean_reason(answer.err) or "no reason given") if answer.rc != 0 else ""


def _task(script: Path) -> dict[str, Any]:
    return {
        "name": "Read the hardware of the node",
        "rdmaprov.node.collect": {"program": str(script), "python": _PYTHON},
        "timeout": _LIMIT_S,
    }


def _record_event(
    event: dict[str, Any], answers: NodeFacts, find: Callable[[str], Target | None]
) -> None:
    data = event.get("event_data", {})
    host, result = str(data.get("host", "")), data.get("res", {})
    if event.get("event") == "runner_on_ok" and host:
        try:
            answers.facts[host] = parse_facts(str(result.get("stdout", "")))
        except OddAnswer as error:
            answers.failures[host] = str(error)
    elif event.get("event") in _EVENTS and host:
        said = str(result.get("stderr") or result.get("msg") or "no reason given")
        by_ssh, by_shell = (
            event["event"] == "runner_on_unreachable",
            result.get("rc") in _NO_PROGRAM,
        )
        target = find(host) if by_ssh else None
        lost = lost_reason(said, target, by_ssh=by_ssh, by_shell=by_shell)
        reason = lost.text if lost else clean_reason(said)
        answers.failures[host] = printable(reason)[:_MOST_REASON]
