"""What nodes say of themselves before and after a run: their facts, their counters, their reach."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import Nodes, ask_each, program_command
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight import rail_reach, reach
from rdmaprov.acceptance.remedies import no_answer
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.node import gpus
from rdmaprov.probe.errors import NodeError

PREFLIGHT_S = 120 + 2 * gpus.LIMIT_S
_COUNTERS_S = 60 + gpus.LIMIT_S
_REACH_SLACK_S = 30


def choose_backend(wanted: str, nodes: Sequence[Node], known: Mapping[str, Document]) -> str:
    """Return the backend: nccl where the site says that there are GPUs, or a node has some."""
    if wanted != "auto":
        return wanted
    if any(int(node.get("fabric_gpu_count") or 0) for node in nodes):
        return "nccl"
    return "nccl" if any(facts["gpus"]["gpus"] for facts in known.values()) else "gloo"


def read_facts(
    connection: Nodes, nodes: Sequence[Node], wanted: str
) -> tuple[dict[str, Document], str, list[Finding]]:
    """Return the facts of each node, the backend, and what is missing on nodes.

    Args:
        connection: to the nodes.
        nodes: in the site's order.
        wanted: the backend that was asked for.
    """
    asked = {node.name: node for node in nodes}
    began = time.time()
    answers = ask_each(
        connection,
        tuple(asked),
        lambda name: program_command("reader", preflight.reader_request(asked[name]), PREFLIGHT_S),
        lambda name: shapes.preflight(len(asked[name].rails)),
    )
    known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
    backend = choose_backend(wanted, nodes, known)
    return known, backend, preflight.findings(nodes, answers, backend, (began, time.time()))


def read_counters(connection: Nodes, nodes: Sequence[Node]) -> dict[str, Document]:
    """Return the rails' counters of the nodes that answer."""
    asked = {node.name: node for node in nodes}
    answers = ask_each(
        connection,
        tuple(asked),
        lambda name: program_command(
            "reader", preflight.reader_request(asked[name], "counters"), _COUNTERS_S
        ),
        lambda name: shapes.counters(len(asked[name].rails)),
    )
    return {name: said for name, said in answers.items() if not isinstance(said, NodeError)}


def find_rendezvous(
    connection: Nodes, nodes: Sequence[Node], facts: Mapping[str, Document], backend: str
) -> tuple[reach.Rendezvous | None, list[Finding], list[str]]:
    """Return where ranks join, which rails do not reach each other, and notes.

    Args:
        connection: to the nodes.
        nodes: two or more, in the site's order.
        facts: of each.
        backend: `nccl` or `gloo`; RDMA does not need what TCP does.
    """
    names = tuple(node.name for node in nodes)
    asked: dict[str, list[reach.ReachTest]] = {name: [] for name in names}
    for probe in reach.reach_tests(nodes, facts):
        asked[probe.source].append(probe)
    answers = ask_each(
        connection,
        names,
        lambda name: program_command(
            "reader",
            {"verb": "reach", "targets": reach.targets(asked[name]), "limit_s": reach.LIMIT_S},
            reach.LIMIT_S + _REACH_SLACK_S,
        ),
        lambda name: shapes.reach(len(reach.targets(asked[name]))),
    )
    kind = str(nodes[0].get("fabric_kind"))
    found, notes = rail_reach.judge(asked, answers, facts, backend, kind)
    known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
    found += [no_answer(said, n) for n, said in answers.items() if isinstance(said, NodeError)]
    if found:
        return None, found, notes
    rendezvous = reach.find_rendezvous(nodes, facts, asked, known)
    if rendezvous is None:
        what = f"rendezvous: no address of {names[0]} is reachable from all nodes"
        for each, why in list(reach.failures(asked, answers).items())[:1]:
            what += f"; {each.source} to {each.address} port {each.port or 9}: {why}"
        remedy = "Give each rail an address in fabric_rails; let all TCP between nodes pass"
        return None, [Finding("rendezvous.none", what, remedy, proven=False)], notes
    found = reach.control_findings(rendezvous, asked, known)
    return None if found else rendezvous, found, notes
