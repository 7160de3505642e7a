"""The nodes of a site that its scheduler calls idle, with jobs kept off them while it matters."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rdmaprov.cli.session import Prepared
from rdmaprov.errors import UsageError
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.choice import KIND, choose_scheduler
from rdmaprov.scheduler.model import Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.own_programs import OwnPrograms
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.scheduler.slurm import Slurm, health_check_program
from rdmaprov.terminal import Line

# A reservation ends by then, if this process is killed; our choice, as `replace` has it.
HOLD_S = 2 * 3600.0
_REST = "Wait until jobs end, or leave --idle out"


def select_idle(ready: Prepared) -> Prepared:
    """Return a site with its idle nodes alone, to be read; tell the user which are left out.

    A node that waits for a planned job counts: what only reads it keeps no job off it.

    Raises:
        UsageError: the site has no scheduler.
        SchedulerError: no node is idle, or the scheduler does not answer.
    """
    status = _scheduler(ready).status(ready.nodes)
    return _keep(ready, [name for name, each in status.items() if each.idle or each.planned])


@contextmanager
def hold_idle(ready: Prepared, site: Path, seconds: float) -> Iterator[Prepared]:
    """Provide a site with its idle nodes alone, on which no job of others starts meanwhile.

    Args:
        seconds: after which the nodes are free again, whatever happens here.

    Raises:
        UsageError: the site has no scheduler that can reserve nodes.
        SchedulerError: no node is idle, or the scheduler does not answer.
    """
    scheduler = _scheduler(ready)
    if isinstance(scheduler, OwnPrograms):
        raise UsageError(
            f"--idle of accept needs a scheduler that can reserve nodes, and {KIND} is command",
            "Drain the nodes, then name them with --limit",
        )
    digest = hashlib.sha256(str(site.resolve()).encode()).hexdigest()[:8]
    label = f"rdmaprov-idle-{digest}"
    if isinstance(scheduler, Slurm) and (program := health_check_program(())):
        said = f"no job has these nodes, so {program} may drain them or end ranks (its"
        ready.screen.remark(Line(f"{said} HealthCheckProgram): prefer --launcher slurm", "yellow"))
    scheduler.release((), label)  # of a run that was killed: its nodes would not be idle
    status = scheduler.status(ready.nodes)
    chosen = _keep(ready, [name for name, each in status.items() if each.idle])
    try:
        scheduler.hold(chosen.nodes, label, seconds)
        status = scheduler.status(chosen.nodes)  # a job may have started before they were held
        yield _keep(chosen, [name for name, each in status.items() if not each.busy])
    finally:
        scheduler.release(chosen.nodes, label)


def _scheduler(ready: Prepared) -> Scheduler:
    scheduler = choose_scheduler(ready.fleet.nodes)
    if isinstance(scheduler, NoScheduler):
        raise UsageError(
            f"--idle needs a scheduler, and the site has none ({KIND})",
            f"Write {KIND}: slurm in group_vars/all.yml, or name nodes with --limit",
        )
    return scheduler


def _keep(ready: Prepared, names: Sequence[str]) -> Prepared:
    if not names:
        raise SchedulerError("no node is idle", _REST)
    if others := [name for name in ready.nodes if name not in names]:
        ready.screen.remark(Line(f"not idle, left out: {fold_names(others)}"))
    return ready.only(names)
