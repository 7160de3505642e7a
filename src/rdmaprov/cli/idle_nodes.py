"""The nodes of a site that its scheduler calls idle, with jobs kept off them while it matters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rdmaprov.cli.session import Prepared
from rdmaprov.errors import UsageError
from rdmaprov.runs.groups import fold_names
from rdmaprov.scheduler.choice import KIND, choose_scheduler
from rdmaprov.scheduler.model import NodeStatus, Scheduler
from rdmaprov.scheduler.no_scheduler import NoScheduler
from rdmaprov.scheduler.own_programs import OwnPrograms
from rdmaprov.scheduler.programs import SchedulerError
from rdmaprov.terminal import Line

# A reservation ends by then, if this process is killed; our choice, as `replace` has it.
HOLD_S = 2 * 3600.0
_REST = "Wait until jobs end, or leave --idle out"


def select_idle(ready: Prepared) -> Prepared:
    """Return a site with its idle nodes alone; tell the user which are left out.

    Raises:
        UsageError: the site has no scheduler.
        SchedulerError: no node is idle, or the scheduler does not answer.
    """
    return _select(ready, _scheduler(ready))


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
    scheduler.release((), label)  # of a run that was killed: its nodes would not be idle
    chosen = _select(ready, scheduler)
    try:
        scheduler.hold(chosen.nodes, label, seconds)
        yield _without_jobs(chosen, scheduler.status(chosen.nodes))
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


def _select(ready: Prepared, scheduler: Scheduler) -> Prepared:
    status = scheduler.status(ready.nodes)
    return _keep(ready, [name for name in ready.nodes if status[name].idle])


def _without_jobs(ready: Prepared, status: Mapping[str, NodeStatus]) -> Prepared:
    """Return a site without the nodes on which a job started before they were held."""
    return _keep(ready, [name for name in ready.nodes if not status[name].busy])


def _keep(ready: Prepared, names: Sequence[str]) -> Prepared:
    if not names:
        raise SchedulerError("no node is idle", _REST)
    if others := [name for name in ready.nodes if name not in names]:
        ready.screen.remark(Line(f"not idle, left out: {fold_names(others)}"))
    return ready.only(names)
