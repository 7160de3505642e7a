"""What the counters of rails over time add to a result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.samples import verdicts
from rdmaprov.acceptance.samples.fleet import FleetSamples, collect_samples
from rdmaprov.finding.finding import Finding

LOG = "samples.jsonl"


def judge_samples(
    result: GateResult, site: GateSite, keep: Callable[[str, str], Path | None]
) -> None:
    """Add what samplers saw of a run to its result, and keep the rates of all rails."""
    ran = result.ran
    fleet = result.samples = fleet_samples(site, ran) if ran else None
    if ran is None or fleet is None:
        return
    if not fleet.nodes:
        result.notes += verdicts.notes(fleet)
        return
    result.findings += verdicts.findings(fleet)
    result.notes += verdicts.notes(fleet, hung=ran.has_failed)
    keep(LOG, "".join(f"{json.dumps(line)}\n" for line in log_lines(fleet)))


def soak_findings(site: GateSite, ran: JobRun) -> list[Finding]:
    """Return what is wrong with rails in a soak, in which all do the same all the time."""
    fleet = fleet_samples(site, ran)
    if fleet is None:
        return []
    # Planes of one rail each follow one another, so that each rail has other work.
    return verdicts.findings(fleet, steady=len(ran.job.planes) == 1)


def fleet_samples(site: GateSite, ran: JobRun) -> FleetSamples | None:
    """Return what samplers saw of a run, None if it had none."""
    if not ran.job.sampled:
        return None
    files = {name: node.samples for name, node in ran.nodes.items()}
    rails = {node.name: len(node.compute_rails) for node in site.nodes}
    return collect_samples(files, rails, together=site.backend == "nccl")


def log_lines(fleet: FleetSamples) -> Iterator[dict[str, object]]:
    """Yield a line for each node: the rates of its rails in GB/s, by bins of `step_s`."""
    for node in fleet.nodes:
        yield {
            "node": node.node,
            "began_s": node.began_s,
            "clock_ahead_s": fleet.lags_s.get(node.node, 0.0),
            "step_s": node.step_s,
            "sent_gb_s": [
                [None if math.isnan(rate) else float(f"{rate:.4g}") for rate in rail.sent]
                for rail in node.rails
            ],
        }
