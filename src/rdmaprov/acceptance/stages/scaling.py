"""The stage `scaling`: an all-reduce at 2, 4, 8, … all nodes, and where its curve breaks off."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rdmaprov.acceptance.evidence.floor import with_gpus
from rdmaprov.acceptance.evidence.measure import SweepRow
from rdmaprov.acceptance.live.ranks import Group, LiveRanks
from rdmaprov.acceptance.paths.pci import with_slots
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.stage_report import StageNumber, StageReport, leave_out
from rdmaprov.acceptance.stages import scaling_view
from rdmaprov.acceptance.stages.scaling_view import findings, plane_as_data, sentence
from rdmaprov.bandwidth import efficiency
from rdmaprov.bandwidth.fabric import Fabric, FabricError
from rdmaprov.bandwidth.rates import MIN_BYTES
from rdmaprov.bandwidth.site import site_fabric
from rdmaprov.finding.finding import Finding
from rdmaprov.isolation.compare import BAD_SHARE, GLOO_BAD_SHARE
from rdmaprov.isolation.scaling import ScalePoint, SetRate, judge_curve
from rdmaprov.words import quantity

# A count with a slow set is measured this often more, and the median counts.
_MORE = 2
_ALGORITHM = "ring"


@dataclass
class _Measured:
    """The sizes of one plane's sets."""

    rows: dict[Group, list[Mapping[int, SweepRow]]] = field(default_factory=dict)

    def add(self, found: Mapping[Group, Mapping[int, SweepRow]]) -> None:
        for group, own in found.items():
            self.rows.setdefault(group, []).append(own)

    def gb_s(self, group: Group, size: int) -> float:
        """Return the median of a set; 0 if it hung, or was not measured."""
        own = [rows[size].busbw_gb_s for rows in self.rows.get(group, ()) if size in rows]
        return statistics.median(own) if own else 0.0

    def us(self, group: Group) -> float:
        own = [rows[MIN_BYTES].median_us for rows in self.rows.get(group, ()) if MIN_BYTES in rows]
        return statistics.median(own) if own else 0.0


def run_scaling(site: GateSite, runner: JobRunner, intra_node_gb_s: float) -> StageReport:
    """Return what the stage shows; once more without the nodes that failed, if two are left."""
    first = ScalingStage(site, runner, intra_node_gb_s).run()
    left = site.without(first.left_out)
    if not first.left_out or len(left.nodes) < 2:
        return first
    again = ScalingStage(left, runner, intra_node_gb_s).run()
    again.findings[:0] = first.findings
    again.left_out = {**first.left_out, **again.left_out}
    return again


@dataclass
class ScalingStage:
    """Measures the curves of a site."""

    site: GateSite
    runner: JobRunner
    intra_node_gb_s: float = 0.0

    def run(self) -> StageReport:
        """Return what the stage shows; its ranks start twice, in two orders of the nodes."""
        report = StageReport("scaling")
        size = _large_bytes(self.site)
        across = self._curves(report, scaling_view.alternating(self.site), size)
        in_order = self._curves(report, scaling_view.by_leaf(self.site), size, crossing=True)
        if report.left_out:
            left = len(self.site.nodes) - len(report.left_out)
            report.said = f"{quantity(left, 'node')} are left"
            return report
        report.detail = {"algorithm": _ALGORITHM, "bytes": size, "planes": []}
        for plane, found in across.items():
            self._judge(report, plane, self._points(found, in_order[plane], size))
        return report

    def _curves(
        self, report: StageReport, ordered: GateSite, size: int, *, crossing: bool = False
    ) -> dict[str, _Measured]:
        """Return what sets reach by plane, with ranks in an order; none after a node failed."""
        if report.left_out:
            return {}
        with LiveRanks(ordered, self.runner, "scaling").opened() as live:
            found = {p: self._measure(live, p, size, crossing=crossing) for p in live.planes()}
        report.findings += live.findings
        report.left_out = leave_out(live.findings, tuple(node.name for node in self.site.nodes))
        return found

    def _measure(self, live: LiveRanks, plane: str, size: int, *, crossing: bool) -> _Measured:
        """Return what sets reach in the order of these ranks; `crossing`: only larger than a leaf.

        Three times each: the sets of a count take a second, and noise must make no knee.
        """
        found = _Measured()
        place = {node.name: at for at, node in enumerate(live.site.nodes)}
        leaves = scaling_view.leaf_of(self.site)
        for count in scaling_view.counts(len(self.site.nodes)):
            for groups in scaling_view.sets_of(self.site, count):
                wanted = [g for g in groups if not crossing or _has_order(g, leaves)]
                # As torch sorts the ranks of a group.
                ordered = {tuple(sorted(g, key=place.__getitem__)): g for g in wanted}
                for _ in range(1 + _MORE if ordered else 0):
                    reached = live.sweep(list(ordered), (MIN_BYTES, size), plane)
                    found.add({ordered[group]: rows for group, rows in reached.items()})
        return found

    def _points(self, across: _Measured, in_order: _Measured, size: int) -> list[ScalePoint]:
        leaves = scaling_view.leaf_of(self.site)
        share = BAD_SHARE if self.site.backend == "nccl" else GLOO_BAD_SHARE
        points = []
        for count in scaling_view.counts(len(self.site.nodes)):
            groups = [g for own in scaling_view.sets_of(self.site, count) for g in own]
            made = tuple(
                self._set(group, leaves, across, in_order, size)
                for group in groups
                if group in across.rows
            )
            if made:
                points.append(ScalePoint(count, made, size, share))
        return points

    def _set(
        self,
        group: Group,
        leaves: Mapping[str, str],
        across: _Measured,
        in_order: _Measured,
        size: int,
    ) -> SetRate:
        spans, reached = scaling_view.spanned(group, leaves), across.gb_s(group, size)
        healthy_gb_s, healthy_us = self._healthy(group, spans, size)
        return SetRate(
            group,
            spans,
            across.us(group),
            reached,
            in_order.gb_s(group, size) or reached,
            healthy_gb_s,
            healthy_us,
        )

    def _healthy(self, group: Group, leaves: int, size: int) -> tuple[float, float]:
        """Return bus bandwidth and latency that the floor's model allows a set; 0 without one."""
        if self.site.backend != "nccl":
            return 0.0, 0.0
        try:
            fabric = self._fabric(group)
        except FabricError:
            return 0.0, 0.0
        if leaves == 1:
            fabric = replace(fabric, oversubscription=1.0)
        healthy = efficiency.healthy_gb_s(fabric, _ALGORITHM, size)
        first = self.site.nodes[0]
        if first.get("fabric_floor_reason"):  # the site demands less, knowingly
            healthy = min(healthy, float(first.get("fabric_floor_gb_s") or healthy))
        return healthy, efficiency.latency_us(fabric, _ALGORITHM)

    def _fabric(self, group: Group) -> Fabric:
        own = [node for node in self.site.nodes if node.name in group]
        per_node = preflight.gpus_per_node(self.site.facts)
        bare = site_fabric(own, per_node)
        return with_gpus(self.site, with_slots(bare, own, self.site.facts), self.intra_node_gb_s)

    def _judge(self, report: StageReport, plane: str, points: Sequence[ScalePoint]) -> None:
        """Add a plane's curve, and what it shows, to the report."""
        if not points:
            report.said = "no set of nodes finished"
            what = "the curve is not measured: no set of nodes finished"
            report.findings.append(
                Finding("scaling.unmeasured", what, "Run rdmaprov accept SITE", proven=False)
            )
            return
        verdict = judge_curve(points)
        report.findings += findings(verdict)
        assert report.detail is not None  # noqa: S101 - made by `run`
        report.detail["planes"].append(plane_as_data(plane, points, verdict))
        report.numbers += [
            StageNumber(f"{point.nodes} nodes, {plane}", point.gb_s) for point in points
        ]
        report.said += f"{'; ' if report.said else ''}{sentence(points, verdict)}"


def _has_order(group: Group, leaves: Mapping[str, str]) -> bool:
    """Return whether leaf by leaf is another order: of several leaves, or of unknown ones."""
    return scaling_view.spanned(group, leaves) != 1 and len(group) > 2


def _large_bytes(site: GateSite) -> int:
    """Return the large message: with NCCL all that fits, as a ring's latency grows with nodes."""
    if site.backend == "gloo":
        return jobs.group_bytes(site)
    return jobs.default_sizes("nccl", preflight.free_bytes(site.facts))[-1]


def scaling_line(site: GateSite) -> str:
    """Return what the stage is about to do, as one line."""
    counted = ", ".join(map(str, scaling_view.counts(len(site.nodes))))
    return f"scaling: all-reduces of {counted} nodes side by side, by a ring, in two orders"
