"""The result of an acceptance, as data; docs/results.schema.json describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rdmaprov.acceptance.evidence import measure, proof
from rdmaprov.acceptance.ranks.plan import JobPlane
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.samples.fleet import FleetSamples, samples_as_data
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.bandwidth.floor_model import Judgement
from rdmaprov.boundary import Document
from rdmaprov.exit_codes import ExitCode
from rdmaprov.facts import CouldNotTell, neighbors
from rdmaprov.facts.lldp_daemons import parse_lldpd
from rdmaprov.finding.finding import Finding
from rdmaprov.problem import printable
from rdmaprov.rail_counters import traffic as counters
from rdmaprov.rail_counters.traffic import RailTraffic

_VERDICTS = {
    ExitCode.OK: "accepted",
    ExitCode.FAILED: "refused",
    ExitCode.UNKNOWN: "unknown",
    ExitCode.INTERRUPTED: "interrupted",
}
CONNECTED = "connected"
GLOO_NOTE = (
    "gloo shows reachability, rank order and right values on each rail, over TCP. Not verified: "
    "GPU bandwidth, RDMA, the lossless priority"
)


@dataclass
class GateResult:
    """What is known at the end of an acceptance.

    Attributes:
        backend: `nccl` or `gloo`; empty if that was not decided.
        ran: the run; None if there was none.
        samples: the counters of rails over time; None without a run.
        judgement: the floor's; None with gloo.
        used_sharp: whether the switches reduced, where the site wants that.
        over_rails: what a second run showed, without NVLink between nodes; None if there was none.
        resumed: whether stages of an interrupted run stand for those of this one.
        tests: what pairs and groups reached, a mapping for each, in the order of time.
        details: all that stages measured, by the key of results.json (`detail` of stages.TABLE).
        digests: of each node's variables in the site.
    """

    nodes: tuple[str, ...]
    backend: str = ""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: Mapping[str, Document] = field(default_factory=dict)
    ran: JobRun | None = None
    rails: list[RailTraffic] = field(default_factory=list)
    samples: FleetSamples | None = None
    judgement: Judgement | None = None
    used_mnnvl: bool = False
    used_sharp: bool = False
    over_rails: "GateResult | None" = None
    interrupted: bool = False
    resumed: bool = False
    stages: list[StageReport] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def intra_node_gb_s(self) -> float:
        """Return what the stage host measured inside the slowest good node; 0: unknown."""
        return next((each.intra_node_gb_s for each in self.stages if each.name == "host"), 0.0)

    def exit_code(self) -> ExitCode:
        """Return 130 if interrupted, 1 if something is wrong, 4 if something is unknown, else 0."""
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if any(finding.proven for finding in self.findings):
            return ExitCode.FAILED
        if self.findings or self.ran is None or not self.ran.good:
            return ExitCode.UNKNOWN
        runs = [self.ran, *([self.over_rails.ran] if self.over_rails else [])]
        whole = all(ran is not None and ran.good and proof.is_complete(ran) for ran in runs)
        return ExitCode.OK if whole else ExitCode.UNKNOWN

    @property
    def verdict(self) -> str:
        """Return accepted, connected (all that gloo can show), refused, unknown or interrupted."""
        verdict = _VERDICTS[self.exit_code()]
        return CONNECTED if verdict == "accepted" and self.backend == "gloo" else verdict

    def as_data(self) -> dict[str, Any]:
        """Return what results.json has of no other verb; docs/results.schema.json describes it."""
        return {
            "backend": self.backend,
            "world_size": self.ran.job.world if self.ran else 0,
            "findings": [finding.as_data() for finding in self.findings],
            "notes": self.notes,
            "stages": [report.as_data() for report in self.stages],
            "floor": _floor(self.judgement),
            "floor_over_rails": _floor(self.over_rails.judgement) if self.over_rails else None,
            "planes": [*self._planes(), *(self.over_rails._planes() if self.over_rails else ())],
            "rails": [
                {"node": each.node, "rail": each.rail, "sent_bytes": each.sent_bytes}
                for each in self.rails
            ],
            "congestion": counters.congestion(self.rails),
            "samples": samples_as_data(self.samples),
            **self.details,
        }

    def nodes_as_data(self) -> dict[str, Any]:
        """Return one plain entry for each node, in the order of their ranks."""
        return {name: self._node(name) for name in self.nodes}

    def _node(self, name: str) -> dict[str, Any]:
        """Return a node's versions, its number of findings, and the processes left on it."""
        facts = self.facts.get(name, {})
        versions = facts.get("torch", {})
        own = [finding for finding in self.findings if name in finding.nodes]
        left = self.ran.nodes[name].left if self.ran and name in self.ran.nodes else ()
        return {
            "torch": versions.get("torch", ""),
            "nccl": versions.get("nccl", ""),
            "findings": len(own),
            "processes_left": None if left is None else list(left),
            "boot_id": facts.get("boot_id", ""),
            "site_sha256": self.digests.get(name, ""),
            **_system(facts),
        }

    def _planes(self) -> list[dict[str, Any]]:
        return [self._plane(plane) for plane in self.ran.job.planes] if self.ran else []

    def _plane(self, plane: JobPlane) -> dict[str, Any]:
        """Return a plane's sweep, latency and ranks."""
        assert self.ran is not None  # noqa: S101 - asked for each plane of the run
        name = plane.name
        rows = [row for row in measure.rows(self.ran) if row.plane == name]
        top = measure.largest_row(rows, name)
        checked = [event for event in self.ran.events_of("checked") if event["plane"] == name]
        ranks = measure.times_by_rank(self.ran, name, top.bytes) if top else {}
        lateness = measure.lateness(self.ran, name)
        return {
            "name": name,
            "rail": plane.rail,
            "rows": [_row(row) for row in rows],
            "sizes_checked": sorted({event["bytes"] for event in checked}),
            "dtypes": sorted({dtype for event in checked for dtype in event["dtypes"]}),
            "ranks": [
                {
                    "rank": rank,
                    "node": self.ran.job.node_of(rank),
                    "late_us": lateness.get(rank),
                    **times,
                }
                for rank, times in sorted(ranks.items())
            ],
            "late_ranks": sorted(measure.stragglers(self.ran, name)),
            "pairs": [
                {"from": each.source, "to": each.target, "us": each.us, "gb_s": each.gb_s}
                for each in measure.directions(self.ran)
                if each.plane == name
            ],
        }


def _system(facts: Document) -> dict[str, Any]:
    """Return what a node is made of, its versions, and the firmware of each rail."""
    if not (identity := facts.get("identity")):
        return {}
    firmware = [each["firmware"] for each in identity["rails"]]
    parts = {key: identity[key] for key in ("machine", "rails", "gpus")}
    serials = facts.get("serials", {})
    parts["gpus"] = [{**gpu, "serial": serials.get(gpu["pci"], "")} for gpu in parts["gpus"]]
    if "labels" in facts:
        pairs = zip(parts["rails"], facts["labels"], strict=True)
        parts["rails"] = [{**nic, **_label(label, facts.get("lldp", ""))} for nic, label in pairs]
    return {"versions": dict(identity["versions"]), "firmware": firmware, "identity": parts}


def _label(label: Mapping[str, Any], lldp: str) -> dict[str, Any]:
    """Return what is written on a NIC and its modules, each with its switch port by LLDP."""
    modules = [{**each, "switch": _switch(each["port"], lldp)} for each in label["modules"]]
    return {**label, "modules": modules}


def _switch(port: str, lldp: str) -> str:
    try:
        seen = neighbors.of_lldpd(parse_lldpd(lldp, neighbors.LLDPCTL)).of(port)
    except CouldNotTell:
        seen = None
    return printable(seen.label) if seen else ""


def _row(row: measure.SweepRow) -> dict[str, Any]:
    return {
        "bytes": row.bytes,
        "in_place": row.in_place,
        "count": row.count,
        "median_us": row.median_us,
        "p99_us": row.p99_us,
        "algbw_gb_s": row.algbw_gb_s,
        "busbw_gb_s": row.busbw_gb_s,
    }


def _floor(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None:
        return None
    return {
        "ceiling_gb_s": judgement.floor.ceiling_gb_s,
        "floor_gb_s": judgement.floor.floor_gb_s,
        "derivation": judgement.floor.derivation,
        "verdict": judgement.verdict.value if judgement.verdict else None,
        "sentence": judgement.sentence,
        "likely_causes": [cause.cause for cause in judgement.likely_causes],
    }
