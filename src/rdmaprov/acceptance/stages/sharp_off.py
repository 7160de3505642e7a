"""SHARP on against off: the largest all-reduces again, with NCCL_COLLNET_ENABLE=0."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rdmaprov.acceptance.evidence import floor as fleet_floor
from rdmaprov.acceptance.evidence import sharp
from rdmaprov.acceptance.options import Options
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.launch import JobRunner
from rdmaprov.acceptance.result import GateResult
from rdmaprov.acceptance.stages import fleet as stages_fleet
from rdmaprov.bandwidth.sizes import format_size

PLANE = "without SHARP"
# The largest alone is compared; the one below it tells whether it is an outlier. Our choice.
_SIZES = 2
_PORTS_AFTER = 2  # that of the run over the rails comes between


def compare(
    result: GateResult,
    site: GateSite,
    runner: JobRunner,
    options: Options,
    on_stage: Callable[[str], None],
) -> None:
    """Run all nodes without SHARP where they ran well with it; note what it gains.

    Args:
        result: with the run of all nodes; gets a note.
    """
    ran = result.ran
    if ran is None or not ran.good or not result.used_sharp:
        return
    job = stages_fleet.again_job(replace(site, collnet=False), options, PLANE, _SIZES, _PORTS_AFTER)
    on_stage(stages_fleet.fleet_line(job, options.limit_s or job.limit_s()))
    other = stages_fleet.run_fleet(runner, job, options)
    with_it, without = fleet_floor.fleet_row(ran), fleet_floor.fleet_row(other)
    if not other.good or with_it is None or without is None or with_it.bytes != without.bytes:
        result.notes.append(
            f"{sharp.USED} not compared with a run without it, which did not end well"
        )
        return
    gain = with_it.busbw_gb_s / without.busbw_gb_s
    result.notes.append(
        f"{sharp.USED} {with_it.busbw_gb_s:.1f} GB/s at {format_size(with_it.bytes)}, "
        f"{without.busbw_gb_s:.1f} GB/s without it: {gain:.2f} times"
    )
