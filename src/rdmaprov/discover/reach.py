"""Run the collector on nodes, all side by side."""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
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
from rdmaprov.probe.script import node_script
from rdmaprov.probe.target import Target
from rdmaprov.probe.ways import Takeover
from rdmaprov.problem import printable

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
_LIMIT_S = 40  # takes a second; with two LLDP programs that do not end, 20 s more
_MOST_REASON = 500  # characters


@dataclass(frozen=True)
class NodeFacts:
    """The facts of each node that was read, and why each other node was not."""

    facts: dict[str, dict[str, Any]]
    failures: dict[str, str]
    relays: Sequence[Takeover] = ()


def read_nodes(
    targets: Mapping[str, Target | NodeError], count: Callable[[], None] = lambda: None
) -> NodeFacts:
    """Run the collector on nodes; return the facts of each.

    Args:
        count: is called for each node, in their order.
    """
    source, probe = node_script(COLLECTOR), Probe(targets)
    commands = {
        name: Command(f"{getattr(target, 'interpreter', '')} -", _LIMIT_S, shared=source)
        for name, target in targets.items()
    }
    try:
        found = probe.run_all(commands, count)
    finally:
        probe.close()
    answers = NodeFacts({}, {}, probe.taken)
    for name, answer in found.items():
        why = _why_not(answer)
        try:
            if not why and isinstance(answer, Answer):
                answers.facts[name] = parse_facts(answer.out)
        except OddAnswer as error:
            why = str(error)
        if why:
            answers.failures[name] = printable(why).removeprefix(f"{name}: ")[:_MOST_REASON]
    return answers


def _why_not(answer: Answer | NodeError) -> str:
    if isinstance(answer, NodeError):
        return str(answer)
    return (clean_reason(answer.err) or "no reason given") if answer.rc != 0 else ""
