"""The stage `pairs`: paths over RDMA, then collectives of two nodes without those at fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths.data import paths_as_data
from rdmaprov.acceptance.paths.pci import near_gpus, usual_slots
from rdmaprov.acceptance.paths.perftests import open_path_tests
from rdmaprov.acceptance.paths.plan import PathOptions, plan_paths
from rdmaprov.acceptance.paths.priorities import judge_priorities
from rdmaprov.acceptance.paths.survey import software_settings, survey_nodes
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.stage_report import StageReport, leave_out
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages.pair_cross_rail import add_cross_rail_paths
from rdmaprov.acceptance.stages.pair_gpus import add_gpu_paths, gpu_way
from rdmaprov.acceptance.stages.pair_paths import PathReport, message_bytes, run_paths
from rdmaprov.inventory import Node
from rdmaprov.perftest.matchings import MATCHINGS
from rdmaprov.perftest.tool.options import Settings
from rdmaprov.words import quantity

# Of each test of bandwidth, seconds: with start and end, six rounds are a minute. Our choice.
_DURATION_S = 3


def run_site_pairs(
    connection: Nodes, site: GateSite, options: Options, open_live: Callable[[GateSite], LiveRanks]
) -> StageReport:
    """Test paths over RDMA, and then collectives of two nodes without those at fault.

    Args:
        open_live: returns the ranks of nodes that wait for tasks.
    """
    paths = measure_site_paths(connection, site, options)
    if paths is None:
        return _run_rings(site, options, open_live)
    names = tuple(node.name for node in site.nodes)
    paths.stage.detail = paths_as_data(names, paths.bandwidth, paths.latency, paths.expected)
    lost = leave_out(paths.stage.findings, names)
    if len(names) - len(lost) < 2 or (paths.stage.findings and not options.keep_going):
        return paths.stage
    report = join_pairs(paths.stage, _run_rings(site.without(lost), options, open_live))
    report.left_out = {**lost, **leave_out(report.findings, names)}
    return report


def _run_rings(
    site: GateSite, options: Options, open_live: Callable[[GateSite], LiveRanks]
) -> StageReport:
    if len(site.nodes) == 2 and site.backend == "gloo" and "fleet" in options.wanted:
        # NCCL may take a tree on two nodes, which hides a slow rail; gloo has a ring alone.
        return StageReport("pairs", "the only pair is the stage fleet", is_skipped=True)
    return stages_groups.run_pairs(open_live(site), site, options.pairs)


def measure_site_paths(connection: Nodes, site: GateSite, options: Options) -> PathReport | None:
    """Return what tests of paths between nodes show; None where fewer than two nodes can.

    A node can if it has perftest and a rail. Soft-RoCE is tested where no node has anything else.

    Args:
        options: whether to test all pairs, and paths between rails.
    """
    surveys = survey_nodes(connection, site)
    able = {name: each for name, each in surveys.items() if each.abilities and each.ports}
    hardware = {name: each for name, each in able.items() if not each.is_software}
    able = hardware or able
    nodes = [node for node in site.nodes if node.name in able]
    if len(nodes) < 2:
        return None
    asked = PathOptions(
        matchings=0 if options.pairs else MATCHINGS,
        slots=usual_slots(able.values()),
        is_software=not hardware,
    )
    before = readings.read_counters(connection, nodes) if _has_priorities(nodes) else {}
    with open_path_tests(connection, able, _settings(nodes, asked.is_software)) as tests:
        found = run_paths(nodes, tests, asked)
        plan = plan_paths(nodes, asked)
        if options.cross_rail:
            size = message_bytes(asked)
            add_cross_rail_paths(found.stage, found.bandwidth, plan, tests, size)
        if memory := near_gpus(able):
            way = gpu_way(able) or "perftest"
            add_gpu_paths(found.stage, found.bandwidth, plan, tests, memory, way)
    if before:
        after = readings.read_counters(connection, nodes)
        findings, notes = judge_priorities(nodes, before, after)
        found.stage.findings += findings
        found.stage.notes += notes
    if rest := len(site.nodes) - len(nodes):
        found.stage.notes.append(f"paths of {quantity(rest, 'node')} not verified: no perftest")
    return found


def _has_priorities(nodes: Sequence[Node]) -> bool:
    return all(
        node.get("fabric_kind") == "roce" and node.get("fabric_lossless_priority") is not None
        for node in nodes
    )


def _settings(nodes: Sequence[Node], is_software: bool) -> Settings:
    """Return perftest's settings: data goes as the jobs' data does."""
    mtus = [int(node.get("mtu_rdma_bytes") or 0) for node in nodes]
    settings = Settings(_DURATION_S, mtu=min(mtus))
    settings = software_settings(settings) if is_software else settings
    if nodes[0].get("fabric_kind") == "infiniband":
        level = nodes[0].get("nccl_ib_sl")
        return replace(settings, service_level=None if level is None else int(level))
    dscp = nodes[0].get("fabric_roce_dscp")
    return replace(settings, dscp=None if dscp is None else int(dscp))


def join_pairs(paths: StageReport, rings: StageReport) -> StageReport:
    """Return both parts of the stage as one."""
    joined = StageReport("pairs", f"{paths.said}; {rings.said}", is_skipped=False)
    joined.findings = [*paths.findings, *rings.findings]
    joined.notes = [*paths.notes, *rings.notes]
    joined.detail = paths.detail
    joined.numbers = [*paths.numbers, *rings.numbers]
    return joined
