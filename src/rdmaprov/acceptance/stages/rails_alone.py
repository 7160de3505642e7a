"""The rails of a fleet whose nodes share NVLink: the largest all-reduces again, without it.

Between nodes of one NVLink domain NCCL sends by NVLink (MNNVL), so a fast all-reduce proves no rail
there. NCCL reads NCCL_MNNVL_ENABLE when a communicator is made, so the ranks start anew.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.ranks.plan import GateJob
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.bandwidth.site import nvlink_nodes
from rdmaprov.boundary import Document
from rdmaprov.finding.finding import Finding

PLANE = "rails without MNNVL"
_NOT_STATED = (
    "NCCL used NVLink between nodes (P2P/MNNVL), and the site states no fabric_nvlink_domain: "
    "state it, so that the floor is that of NVLink"
)
# The floor is of 1 GiB or more, and smaller sizes were measured before. Our choice.
_SIZES = 3


@dataclass(frozen=True)
class Outputs:
    """Where lines and evidence go."""

    on_stage: Callable[[str], None]
    keep: Callable[[str, str], Path | None]

    def keep_rails(self, name: str, text: str) -> Path | None:
        """Write a file of evidence beside that of the first run."""
        return self.keep(f"rails-{name}", text)


def is_due(site: GateSite, result: GateResult) -> bool:
    """Return whether all nodes ran well, and NVLink between them may have hidden their rails."""
    if site.backend != "nccl" or not site.mnnvl or result.ran is None or not result.ran.good:
        return False
    return result.used_mnnvl or nvlink_nodes(site.nodes) > 1


def rails_job(site: GateSite, options: Options) -> GateJob:
    """Return the job of all nodes' rails; `site` is one without NVLink between nodes."""
    return stages_fleet.again_job(site, options, PLANE, _SIZES, 1)


def prove_rails(
    result: GateResult,
    site: GateSite,
    runner: JobRunner,
    connection: Nodes,
    options: Options,
    outputs: Outputs,
    known: Collection[Finding] = (),
) -> list[Finding]:
    """Run all nodes over their rails alone; return what that shows and the first run did not.

    Args:
        result: with the first run; gets the second one.
    """
    job = rails_job(site, options)
    outputs.on_stage(stages_fleet.fleet_line(job, options.limit_s or job.limit_s()))
    before: Mapping[str, Document] = {
        **site.facts,
        **readings.read_counters(connection, site.nodes),
    }
    ran = stages_fleet.run_fleet(runner, job, options)
    there = [node for node in site.nodes if not ran.nodes[node.name].lost]
    after = readings.read_counters(connection, there)
    own = GateResult(result.nodes, result.backend, ran=ran, stages=result.stages)
    stages_fleet.collect_evidence(own, site, before, after, outputs.keep_rails)
    stages_fleet.keep_errors(ran, outputs.keep_rails)
    result.over_rails = own
    if nvlink_nodes(site.nodes) == 1:
        result.notes.append(_NOT_STATED)
    result.notes += [f"{PLANE}: {note}" for note in own.notes if note not in result.notes]
    new = [each for each in own.findings if each not in known]
    return [replace(each, what=f"{PLANE}: {each.what}") for each in new]
