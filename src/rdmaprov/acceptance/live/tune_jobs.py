"""Jobs that measure settings of NCCL: one for each setting, all nodes together, every size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rdmaprov.acceptance.ask.nodes import Nodes
from rdmaprov.acceptance.evidence import measure
from rdmaprov.acceptance.preflight import needs as preflight
from rdmaprov.acceptance.preflight import readings
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks import jobs
from rdmaprov.acceptance.ranks.plan import DTYPES, GateJob
from rdmaprov.acceptance.ranks.run import JobRun
from rdmaprov.bandwidth import rates
from rdmaprov.finding.finding import Finding
from rdmaprov.inventory import Node
from rdmaprov.tuner.model import Trial
from rdmaprov.tuner.settings import NcclSetting

# Every third size, from the largest down: an algorithm's best sizes span more than a factor of 8.
_EVERY = 3
_LEAST_BYTES = 64 << 10
# Values are verified in two types; more would verify the same kernels again.
_DTYPES = DTYPES[:2]


def ready_site(
    connection: Nodes, nodes: Sequence[Node]
) -> tuple[GateSite | None, str, list[Finding]]:
    """Return what is known of the nodes, the backend, and what keeps them from a measurement.

    Args:
        nodes: two or more, in the site's order.
    """
    facts, backend, found = readings.read_facts(connection, nodes, "auto")
    if found or len(facts) < len(nodes):
        return None, backend, found
    rendezvous, found, _ = readings.find_rendezvous(connection, nodes, facts, backend)
    if found or rendezvous is None:
        return None, backend, found
    return GateSite(tuple(nodes), facts, backend, rendezvous), backend, []


def tune_sizes(site: GateSite, wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes to measure, in bytes, ascending: of those wanted, or of all that fit."""
    fitting = jobs.default_sizes(site.backend, preflight.free_bytes(site.facts))
    known = wanted or tuple(size for size in fitting if size >= _LEAST_BYTES)
    return tuple(reversed(known[::-1][::_EVERY]))


def sizes_line(site: GateSite, chosen: tuple[int, ...]) -> str:
    """Return what is measured, as one line."""
    names = ", ".join(map(rates.format_size, chosen))
    return f"{len(site.nodes)} nodes × {site.per_node} ranks over {site.backend}; sizes: {names}"


@dataclass(frozen=True)
class TuneJobs:
    """Measures settings on a site."""

    site: GateSite
    run: Callable[[Sequence[GateJob]], list[JobRun]]
    sizes: tuple[int, ...]  # of messages, in bytes, ascending
    # is called with each setting and what its job measured
    on_trial: Callable[[NcclSetting, Trial | None], None] = lambda _setting, _trial: None

    def measure(self, setting: NcclSetting) -> Trial | None:
        """Return what one job measures with a setting; None if it fails."""
        (ran,) = self.run([self.job(setting)])
        trial = self._trial(ran)
        self.on_trial(setting, trial)
        return trial

    def job(self, setting: NcclSetting) -> GateJob:
        """Return the all-reduces of all nodes with a setting, without NCCL's logs of all else."""
        job = jobs.fleet_job(self.site, self.sizes, pairs=False)
        sweep = replace(job.tasks[0], dtypes=_DTYPES)
        own = {name: {**job.environment.get(name, {}), **setting.environment} for name in job.nodes}
        return replace(job, tasks=(sweep,), environment=own, sampled={})

    def _trial(self, ran: JobRun) -> Trial | None:
        """Return what the ranks reported; a wrong value is worse than a job that fails."""
        is_right = not any(True for _ in ran.events_of("wrong"))
        rows = [row for row in measure.rows(ran) if row.in_place]
        if is_right and not ran.good:
            return None
        return Trial({row.bytes: row.busbw_gb_s for row in rows}, is_right)
