"""What nodes say of their perftest, their rails and the way to them, before paths are tested."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, program_command
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.boundary import Document
from rdmaprov.inventory import Node
from rdmaprov.node import gpus
from rdmaprov.perftest.tool.options import PROGRAMS, Abilities, RdmaPort, Settings, read_abilities
from rdmaprov.probe.errors import NodeError

_SURVEY_S = 120 + gpus.LIMIT_S
# Soft-RoCE on emulated processors that others share was seen to carry 0.5 to 1.5 MB/s: 3 MB take
# some seconds, and what is in flight a fraction of one, where perftest's own 128 messages of 64 KiB
# take longer than a test. A packet is sent again after 1.07 s, perftest's 67 ms times 16: a
# processor that waits for its turn is no lost packet.
SOFTWARE_BYTES = 1 << 14
_SOFTWARE_MESSAGES, _SOFTWARE_DEPTH, _SOFTWARE_QP_TIMEOUT = 200, 8, 18


@dataclass(frozen=True)
class NodeSurvey:
    """What a node has for tests of paths."""

    address: str = ""  # by which clients reach its servers, over TCP; empty if it has none of IPv4
    # of each perftest that is installed, by program
    abilities: Mapping[str, Abilities] = field(default_factory=dict)
    # by rail; those that perftest can use
    ports: Mapping[int, RdmaPort] = field(default_factory=dict)
    # the answer, for those who judge the paths of PCI
    said: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""

    @property
    def numa_nodes(self) -> tuple[int, ...]:
        """Return its NUMA nodes with memory and processors."""
        return tuple(self.said.get("numa", ()))

    @property
    def gpus(self) -> tuple[int, ...]:
        """Return the numbers of its GPUs."""
        return tuple(gpu["index"] for gpu in self.said.get("gpus", ()))

    @property
    def is_software(self) -> bool:
        """Return whether a device of a rail is no PCI function, as with Soft-RoCE."""
        rails = self.said.get("rails", ())
        return any(rail["device"] and not rail["path"] for rail in rails)


def software_settings(settings: Settings) -> Settings:
    """Return settings for Soft-RoCE."""
    return replace(
        settings,
        messages=_SOFTWARE_MESSAGES,
        tx_depth=_SOFTWARE_DEPTH,
        qp_timeout=_SOFTWARE_QP_TIMEOUT,
    )


def survey_nodes(connection: Nodes, site: GateSite) -> dict[str, NodeSurvey]:
    """Return what each node has; one that does not answer has nothing."""
    asked = {node.name: node for node in site.nodes}
    commands = {
        name: program_command("path_reader", _request(node, site.facts[name]), _SURVEY_S)
        for name, node in asked.items()
    }
    answers = ask_nodes(
        connection, commands, lambda name: shapes.path_survey(len(asked[name].rails), PROGRAMS)
    )
    return {
        name: NodeSurvey(why=str(said))
        if isinstance(said, NodeError)
        else _survey(said, _address(site, name), asked[name])
        for name, said in answers.items()
    }


def _request(node: Node, facts: Document) -> Document:
    rails = [
        {"device": seen["rdma"], "address": str(rail.address.ip) if rail.address else ""}
        for rail, seen in zip(node.rails, facts["rails"], strict=True)
    ]
    return {"verb": "paths", "rails": rails, "programs": list(PROGRAMS)}


def _survey(said: Document, address: str, node: Node) -> NodeSurvey:
    abilities = {
        name: read_abilities("\n".join(each["help"]), uses_dmabuf=not said["peermem"])
        for name, each in said["programs"].items()
        if each["there"]
    }
    ports = dict(_ports(said["rails"], node))
    return NodeSurvey(address, abilities, ports, said)


def _ports(rails: Sequence[Mapping[str, Any]], node: Node) -> Iterator[tuple[int, RdmaPort]]:
    """Yield the rails whose device perftest can use: on Ethernet, one with a GID of RoCE v2."""
    for rail, seen in zip(node.rails, rails, strict=True):
        if seen["device"] and (seen["layer"] != "Ethernet" or seen["gid"] >= 0):
            gid = seen["gid"] if seen["layer"] == "Ethernet" else None
            yield rail.index, RdmaPort(seen["device"], gid)


def _address(site: GateSite, name: str) -> str:
    """Return the first IPv4 address of the device by which a node reaches the rendezvous.

    perftest's servers listen on IPv4 alone, unless another option is given to both ends.
    """
    own = site.facts[name]["addresses"].get(site.rendezvous.devices[name], ())
    return next((each for each in own if ":" not in each), "")
