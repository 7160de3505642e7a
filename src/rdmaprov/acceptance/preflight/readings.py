"""What nodes say of themselves before and after a run: their facts, their counters, their reach.

What an answer, or none, proves of a rail: RDMA needs no TCP, as a firewall may drop TCP on rails,
and RoCE passes it by. So where a run uses NCCL, a connection that is not answered is no proof by
itself, and the run shows whether the rail works. It is proven that a rail does not work where the
node cannot even send, or where ARP, which RoCE needs too, gets no answer. A connection that is
refused was answered, but not always by the right node: the neighbor table names who it was.
"""

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from errno import EADDRNOTAVAIL, ENETDOWN, ENETUNREACH, ENODEV

from rdmaprov.acceptance.ask import shapes
from rdmaprov.acceptance.ask.nodes import Nodes, ask_nodes, program_command
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight import reach
from rdmaprov.acceptance.preflight.reach import ReachTest
from rdmaprov.acceptance.remedies import no_answer
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.node import gpus
from rdmaprov.probe.errors import NodeError

PREFLIGHT_S = 120 + 2 * gpus.LIMIT_S
_COUNTERS_S = 60 + gpus.LIMIT_S
_REACH_SLACK_S = 30
_CANNOT_SEND = {os.strerror(each) for each in (ENETUNREACH, ENETDOWN, ENODEV, EADDRNOTAVAIL)}
# Of ip-neighbour(8): ARP was asked, and nobody answered.
_NOBODY = {"FAILED", "INCOMPLETE"}


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
        nodes: in the site's order.
    """
    asked = {node.name: node for node in nodes}
    began = time.time()
    commands = {
        name: program_command("reader", preflight.reader_request(node), PREFLIGHT_S)
        for name, node in asked.items()
    }
    answers = ask_nodes(connection, commands, lambda name: shapes.preflight(len(asked[name].rails)))
    known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
    backend = choose_backend(wanted, nodes, known)
    return known, backend, preflight.findings(nodes, answers, backend, (began, time.time()))


def read_counters(connection: Nodes, nodes: Sequence[Node]) -> dict[str, Document]:
    """Return the rails' counters of the nodes that answer."""
    asked = {node.name: node for node in nodes}
    commands = {
        name: program_command("reader", preflight.reader_request(node, "counters"), _COUNTERS_S)
        for name, node in asked.items()
    }
    answers = ask_nodes(connection, commands, lambda name: shapes.counters(len(asked[name].rails)))
    return {name: said for name, said in answers.items() if not isinstance(said, NodeError)}


def find_rendezvous(
    connection: Nodes, nodes: Sequence[Node], facts: Mapping[str, Document], backend: str
) -> tuple[reach.Rendezvous | None, list[Finding], list[str]]:
    """Return where ranks join, which rails do not reach each other, and notes.

    Args:
        nodes: two or more, in the site's order.
        backend: `nccl` or `gloo`; RDMA does not need what TCP does.
    """
    names = tuple(node.name for node in nodes)
    asked: dict[str, list[reach.ReachTest]] = {name: [] for name in names}
    for probe in reach.reach_tests(nodes, facts):
        asked[probe.source].append(probe)
    commands = {
        name: program_command(
            "reader",
            {"verb": "reach", "targets": reach.targets(own), "limit_s": reach.LIMIT_S},
            reach.LIMIT_S + _REACH_SLACK_S,
        )
        for name, own in asked.items()
    }
    answers = ask_nodes(
        connection, commands, lambda name: shapes.reach(len(reach.targets(asked[name])))
    )
    kind = str(nodes[0].get("fabric_kind"))
    found, notes = judge(asked, answers, facts, backend, kind)
    known = {name: said for name, said in answers.items() if not isinstance(said, NodeError)}
    found += [no_answer(said, n) for n, said in answers.items() if isinstance(said, NodeError)]
    if found:
        return None, found, notes
    rendezvous = reach.find_rendezvous(nodes, facts, asked, known)
    if rendezvous is None:
        what = f"rendezvous: no address of {names[0]} is reachable from all nodes"
        for each, why in list(reach.failures(asked, answers).items())[:1]:
            what += f"; {each.source} to {each.address} port {each.tried_port}: {why}"
        remedy = "Give each rail an address in fabric_rails; let all TCP between nodes pass"
        return None, [Finding("rendezvous.none", what, remedy, proven=False)], notes
    found = reach.control_findings(rendezvous, asked, known)
    return None if found else rendezvous, found, notes


def judge(
    asked: Mapping[str, Sequence[ReachTest]],
    answers: Mapping[str, Document | NodeError],
    facts: Mapping[str, Document],
    backend: str,
    kind: str = "roce",
) -> tuple[list[Finding], list[str]]:
    """Return which rails do not reach each other, and notes on those that only TCP does not reach.

    Args:
        asked: the tests, by the node that made them.
        answers: what the reader returned for each node.
        facts: the preflight, by node.
        backend: `nccl` or `gloo`, to which TCP is all.
        kind: fabric_kind. On InfiniBand, RDMA needs neither addresses nor ARP.
    """
    tried = [test for own in asked.values() for test in own]
    failed = reach.failures(asked, answers)
    wrong = list(_strangers(asked, answers, facts))
    if backend != "nccl":
        return [*wrong, *reach.findings(tried, failed)], []
    seen = dict(_evidence(asked, answers))
    proven = {
        test: _why(why, seen.get(test, {}))
        for test, why in failed.items()
        if kind != "infiniband" and _is_proven(why, seen.get(test, {}))
    }
    open_ones = [
        test
        for test in failed
        if test.rail is not None and test not in proven and not seen.get(test, {}).get("ping")
    ]
    return [*wrong, *reach.findings(tried, proven)], list(_notes(open_ones, failed))


def _evidence(
    asked: Mapping[str, Sequence[ReachTest]], answers: Mapping[str, Document | NodeError]
) -> Iterator[tuple[ReachTest, Document]]:
    """Yield for each test its neighbor and whether a ping was answered, where that is known."""
    for source, tests in asked.items():
        answer = answers[source]
        if isinstance(answer, NodeError):
            continue
        pings = answer.get("pings") or [False] * len(tests)
        neighbors = answer.get("neighbors") or [{}] * len(tests)
        for test, ping, neighbor in zip(tests, pings, neighbors, strict=True):
            yield test, {**neighbor, "ping": ping}


def _is_proven(why: str, seen: Document) -> bool:
    return why in _CANNOT_SEND or (seen.get("state") in _NOBODY and not seen.get("ping"))


def _why(why: str, seen: Document) -> str:
    state = seen.get("state", "")
    return f"{why}; ARP gets no answer (ip neigh: {state})" if state in _NOBODY else why


def _notes(tests: Sequence[ReachTest], failed: Mapping[ReachTest, str]) -> Iterator[str]:
    """Yield a note for each rail: how many connections nobody answered, and the first."""
    by_rail: dict[int | None, list[ReachTest]] = defaultdict(list)
    for test in tests:
        by_rail[test.rail].append(test)
    for rail, own in by_rail.items():
        first = own[0]
        yield (
            f"rail {rail}: {len(own)} TCP connections were not answered, such as from "
            f"{first.source} to {first.address} of {first.target}: {failed[first]}. A firewall may "
            "drop TCP; RDMA does not use it, and the run shows whether the rail works"
        )


def _strangers(
    asked: Mapping[str, Sequence[ReachTest]],
    answers: Mapping[str, Document | NodeError],
    facts: Mapping[str, Document],
) -> Iterator[Finding]:
    """Yield addresses of rails that another node of the fleet answers for."""
    owners = {
        rail["mac"].lower(): (name, number)
        for name, known in facts.items()
        for number, rail in enumerate(known["rails"])
        if rail.get("mac")
    }
    named = set()
    for test, seen in _evidence(asked, answers):
        node, rail = owners.get(str(seen.get("mac", "")).lower(), (test.target, test.rail))
        if node != test.target and (node, test.address) not in named:
            named.add((node, test.address))
            what = f"{test.address} of {test.target} is answered by {node} rail {rail}"
            remedy = "Give each rail its own address in fabric_rails, then check: ip address"
            nodes = (test.target, node)
            yield Finding(
                "address.taken", f"{what} (ip neigh)", remedy, rail=test.rail, nodes=nodes
            )
