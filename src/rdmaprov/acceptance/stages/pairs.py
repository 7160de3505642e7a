"""The stage `pairs`: paths over RDMA, then collectives of two nodes without those at fault."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.evidence.judge import judge_rails
from rdmaprov.acceptance.live.ranks import LiveRanks
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.paths.pci import near_gpus, usual_slots
from rdmaprov.acceptance.paths.perftests import open_path_tests
from rdmaprov.acceptance.paths.plan import PathOptions, PathPlan, plan_paths
from rdmaprov.acceptance.paths.survey import software_settings, survey_nodes
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.stage_report import StageReport, leave_out
from rdmaprov.acceptance.stages import groups as stages_groups
from rdmaprov.acceptance.stages.pair_paths import (
    PathReport,
    add_gpu_paths,
    gpu_way,
    message_bytes,
    run_paths,
)
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.isolation import model
from rdmaprov.perftest.matchings import MATCHINGS, Matching
from rdmaprov.perftest.matrix import PathKey, PathMatrix
from rdmaprov.perftest.model import PathMeasurer, PathTest
from rdmaprov.perftest.tool.options import Settings
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import PRIORITY_SHARE, RailTraffic, fleet_traffic
from rdmaprov.words import quantity

# Below this much, what else the node receives is not small beside it.
_LEAST_BYTES = 16 << 20
# Each port with three others at least, as many as tell a port from its partner.
_LEAST_MATCHINGS = 3
# Of each test of bandwidth, seconds: with start and end, six rounds are a minute. Our choice.
_DURATION_S = 3


def judge_priorities(
    nodes: Sequence[Node], before: Mapping[str, Document], after: Mapping[str, Document]
) -> tuple[list[Finding], list[str]]:
    """Return the rails whose traffic had another priority than the site's, and notes.

    The sender marks packets, so it comes first; where every sender is right, a rail that receives
    another priority classifies packets wrongly, or a switch changed them.

    Args:
        before: what the reader returned before the tests, by node.
    """
    moved = fleet_traffic(nodes, before, after)
    findings: list[Finding] = []
    silent = 0
    for node in nodes:
        own = [each for each in moved.get(node.name, ()) if _counts(each)]
        silent += len(moved.get(node.name, ())) - len(own)
        findings += counters.priorities(node, own)
    if not findings:
        for node in nodes:
            findings += _received(node, moved.get(node.name, ()))
    why = "the driver has no tx_prioN_bytes (ethtool -S)"
    rails = quantity(silent, "rail")
    return findings, [f"priority of the paths of {rails} not verified: {why}"] if silent else []


def _counts(rail: RailTraffic) -> bool:
    return any(f"ethtool.tx_prio{number}_bytes" in rail.delta for number in range(8))


def _received(node: Node, rails: Sequence[RailTraffic]) -> Iterator[Finding]:
    wanted = int(node.get("fabric_lossless_priority"))
    for each in rails:
        got = {n: each.delta.get(f"ethtool.rx_prio{n}_bytes") or 0 for n in range(8)}
        total = sum(got.values())
        if total >= _LEAST_BYTES and got[wanted] < PRIORITY_SHARE * total:
            most = max(got, key=lambda number: got[number])
            what = (
                f"{100 * got[wanted] / total:.0f} % of the bytes that it received had priority "
                f"{wanted} (fabric_lossless_priority), expected at least "
                f"{100 * PRIORITY_SHARE:.0f} %; most had {most}, and all senders sent {wanted} "
                "(ethtool -S)"
            )
            remedy = (
                f"On {node.name}, check trust and the DSCP map (rdmaprov validate SITE --limit "
                f"{node.name}); then whether its switch changes the DSCP"
            )
            yield Finding("traffic.priority", what, remedy, each.node, each.rail)


def paths_as_data(
    nodes: Sequence[str], bandwidth: PathMatrix, latency: PathMatrix, expected: str
) -> dict[str, Any]:
    """Return all paths, one short row each: thousands of nodes have tens of thousands.

    Args:
        nodes: names, in the site's order.
    """
    limits = {bandwidth.limit(path) for path in bandwidth.samples} or {bandwidth.share}
    number = {name: place for place, name in enumerate(nodes)}
    return {
        "expected": expected,
        "limit": round(min(limits), 4),
        "rounds": bandwidth.rounds + latency.rounds,
        "names": list(nodes),
        "leaves": [bandwidth.leaf_of.get(name, "") for name in nodes],
        "rows": list(_rows(number, bandwidth, latency)),
    }


def _rows(
    number: dict[str, int], bandwidth: PathMatrix, latency: PathMatrix
) -> Iterator[list[Any]]:
    """Yield for each path: sender, receiver, both rails, GB/s, share of good, µs, error."""
    for path in sorted({*bandwidth.samples, *bandwidth.unknown}):
        is_known = path in bandwidth.samples
        error = bandwidth.errors.get(path) or ("" if is_known else bandwidth.unknown[path])
        yield [
            number[path.sender],
            number[path.receiver],
            path.rail,
            path.into,
            round(bandwidth.gb_s(path), 3) if is_known else None,
            round(bandwidth.value(path), 4) if is_known else None,
            _usec(latency, path),
            error,
        ]


def _usec(latency: PathMatrix, path: PathKey) -> float | None:
    values = [sample.value for sample in latency.samples.get(path, ()) if sample.value]
    return round(1 / statistics.median(values), 2) if values else None


def add_cross_rail_paths(
    stage: StageReport, within: PathMatrix, plan: PathPlan, measurer: PathMeasurer, size: int
) -> None:
    """Test paths from each rail to each other one, and add what came of them to the stage.

    Where none of them carries anything, the rails are networks of their own, and no fault.

    Args:
        stage: its report; what it names already is not named again.
        size: bytes of a message.
    """
    others = len(plan.rails) - 1
    if not others:
        stage.notes.append("paths between rails: there is one rail")
        return
    matrix = PathMatrix(
        plan.leaf_of,
        within.ceiling,
        share=within.share,
        mild_share=within.mild_share,
        across=within.across,
    )

    def make(matching: Matching) -> Sequence[PathTest]:
        shifted = matching if matching.shift else replace(matching, shift=1)
        return shifted.tests(plan.rails, size=size)

    rounds = [
        replace(plan.few[number % len(plan.few)], shift=1 + number % others)
        for number in range(max(_LEAST_MATCHINGS, others))
    ]
    parts = plan.search(measurer, matrix, make).run(rounds)
    paths = quantity(len(matrix.samples), "path")
    if matrix.samples and not any(matrix.value(path) for path in matrix.samples):
        stage.notes.append(
            f"{paths} from one rail to another carry nothing: the rails are separate networks"
        )
        return
    known = {node for finding in stage.findings for node in finding.nodes}
    stage.findings += model.findings(
        [part for part in parts if part.kind in ("fleet", "leaf") or known.isdisjoint(part.nodes)]
    )
    stage.said += f"; {paths} between rails"
    if unknown := matrix.unknown.keys() - matrix.samples.keys():
        stage.notes.append(f"{quantity(len(unknown), 'path')} between rails not verified")


def run_site_pairs(
    connection: Nodes, site: GateSite, options: Options, open_live: Callable[[GateSite], LiveRanks]
) -> StageReport:
    """Test paths over RDMA, and then collectives of two nodes without those at fault.

    Args:
        open_live: returns the ranks of nodes that wait for tasks.
    """
    paths = measure_site_paths(connection, site, options)
    if paths is None:
        return _run_rings(connection, site, options, open_live, site.facts)
    names = tuple(node.name for node in site.nodes)
    paths.stage.detail = paths_as_data(names, paths.bandwidth, paths.latency, paths.expected)
    lost = leave_out(paths.stage.findings, names)
    if len(names) - len(lost) < 2 or (paths.stage.findings and not options.keep_going):
        return paths.stage
    before = {**site.facts, **paths.counters}  # since then, all data are NCCL's
    rings = _run_rings(connection, site.without(lost), options, open_live, before)
    report = join_pairs(paths.stage, rings)
    report.left_out = {**lost, **leave_out(report.findings, names)}
    return report


def _run_rings(
    connection: Nodes,
    site: GateSite,
    options: Options,
    open_live: Callable[[GateSite], LiveRanks],
    before: Mapping[str, Document],
) -> StageReport:
    if len(site.nodes) == 2 and site.backend == "gloo" and "fleet" in options.wanted:
        # NCCL may take a tree on two nodes, which hides a slow rail; gloo has a ring alone.
        return StageReport("pairs", "the only pair is the stage fleet", is_skipped=True)
    report = stages_groups.run_pairs(open_live(site), site, options.pairs)
    # What is slow makes others send again: beside it, losses say little, and the fleet is judged.
    if site.backend == "nccl" and not report.findings and not report.is_skipped:
        after = readings.read_counters(connection, site.nodes)
        moved = fleet_traffic(site.nodes, before, after).values()
        report.findings += judge_rails(site, [*chain.from_iterable(moved)], has_moved=True)
    return report


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
        found.counters.update(after := readings.read_counters(connection, nodes))
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
