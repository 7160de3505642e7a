"""What NCCL's own diagnostics show of nodes: where a site has NCCL run them, since 2.31."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.nccl_log.diagnosis import Diagnosis, conclude
from rdmaprov.nccl_log.matrix import Matrix


def judge_diagnostics(site: GateSite, matrix: Matrix) -> tuple[list[Finding], list[str]]:
    """Return the findings that NCCL's diagnostics amount to, each with its nodes, and notes.

    NCCL names a rank by its number in a communicator. Only that of all ranks has the numbers of the
    job; what a smaller one says of ranks is found without a node.

    Args:
        site: the nodes that took part.
        matrix: what NCCL wrote.
    """
    hosts = {_short(str(site.facts[node.name]["hostname"])): node for node in site.nodes}
    faults, notes = conclude(matrix.diagnostics)
    return [_finding(site, hosts, fault) for fault in faults], notes


def _finding(site: GateSite, hosts: Mapping[str, Node], fault: Diagnosis) -> Finding:
    nodes = tuple(dict.fromkeys(_names(site, hosts, fault)))
    rail = None
    if fault.hca and len(nodes) == 1:
        rail = _rail(site, nodes[0], fault.hca)
    what = fault.what
    if fault.ranks:
        what += f" (ranks {', '.join(map(str, fault.ranks))})"
    return Finding(
        "nccl.diagnostics",
        what,
        fault.remedy.capitalize(),
        rail=rail,
        proven=fault.proven,
        nodes=nodes,
    )


def _names(site: GateSite, hosts: Mapping[str, Node], fault: Diagnosis) -> Iterator[str]:
    for host in fault.hosts:
        if _short(host) in hosts:
            yield hosts[_short(host)].name
    if fault.size == len(site.nodes) * site.per_node:
        for rank in fault.ranks:
            if rank < fault.size:
                yield site.nodes[rank // site.per_node].name


def _rail(site: GateSite, node: str, hca: str) -> int | None:
    devices = [rail["rdma"] for rail in site.facts[node]["rails"]]
    return devices.index(hca) if hca in devices else None


def _short(hostname: str) -> str:
    return hostname.partition(".")[0]
