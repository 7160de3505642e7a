"""The part of the stage `pairs` that tests RDMA: paths between nodes, before their collectives."""

from __future__ import annotations

from rdmaprov.acceptance.jobs import GateSite
from rdmaprov.acceptance.nodes import Nodes
from rdmaprov.acceptance.path_survey import survey_nodes
from rdmaprov.acceptance.path_tests import open_path_tests
from rdmaprov.acceptance.stages import StageReport
from rdmaprov.acceptance.stages_paths import PathOptions, PathReport, run_paths
from rdmaprov.inventory import Node
from rdmaprov.verbs.matchings import MATCHINGS
from rdmaprov.verbs.perftest.options import Settings
from rdmaprov.words import quantity

# Of each test of bandwidth, seconds: with start and end, six rounds are a minute. Our choice.
_DURATION_S = 3


def measure_site_paths(connection: Nodes, site: GateSite, every: bool) -> PathReport | None:
    """Return what tests of paths between nodes show; None where fewer than two nodes can.

    A node can if it has perftest and a rail. Soft-RoCE can as well, and its rates depend on what
    else a CPU does, so that none is compared.

    Args:
        connection: to the nodes.
        site: those that take part.
        every: test all pairs, not only some matchings.

    """
    surveys = survey_nodes(connection, site)
    able = {
        name: each
        for name, each in surveys.items()
        if each.abilities and each.ports and not each.is_software
    }
    nodes = [node for node in site.nodes if node.name in able]
    if len(nodes) < 2:
        return None
    with open_path_tests(connection, able, _settings(nodes[0])) as tests:
        found = run_paths(nodes, tests, PathOptions(matchings=0 if every else MATCHINGS))
    if rest := len(site.nodes) - len(nodes):
        found.stage.notes.append(f"paths of {quantity(rest, 'node')} not verified: no perftest")
    return found


def _settings(node: Node) -> Settings:
    """Return perftest's settings: data goes as the jobs' data does."""
    if node.get("fabric_kind") == "infiniband":
        return Settings(_DURATION_S)
    dscp = node.get("fabric_roce_dscp")
    return Settings(_DURATION_S, dscp=int(dscp) if dscp is not None else None)


def join_pairs(paths: StageReport, rings: StageReport) -> StageReport:
    """Return both parts of the stage as one."""
    joined = StageReport("pairs", f"{paths.said}; {rings.said}", is_skipped=False)
    joined.findings = [*paths.findings, *rings.findings]
    joined.notes = [*paths.notes, *rings.notes]
    return joined
