"""What `rdmaprov tune` does; apart from its options, so that help stays fast."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Unpack

from rdmaprov.acceptance.launchers.choice import choose, with_launcher
from rdmaprov.acceptance.launchers.opening import open_nodes
from rdmaprov.acceptance.live.tune_jobs import TuneJobs, ready_site, sizes_line, tune_sizes
from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.ranks.launch import Launcher
from rdmaprov.bandwidth.rates import format_gb_s, format_size, parse_sizes
from rdmaprov.cli import session
from rdmaprov.cli.options import PasswordOptions
from rdmaprov.cli.site_lock import site_lock
from rdmaprov.errors import UsageError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.finding.finding import Finding
from rdmaprov.runs.directory import RunDirectory
from rdmaprov.runs.envelope import Head, results_document
from rdmaprov.runs.estimate import expected
from rdmaprov.runs.groups import merge_lost
from rdmaprov.terminal import Line
from rdmaprov.tuner.model import Gain, GainTest, Trial, TunePlan, TuneResult
from rdmaprov.tuner.plan import Tuner
from rdmaprov.tuner.settings import DEFAULTS, NcclSetting, usual_settings
from rdmaprov.words import quantity

Measured = tuple[NcclSetting, Trial | None]
NO_NCCL = "these nodes have no GPUs, so NCCL does not run on them: leave the defaults"


def trial_line(number: int, setting: NcclSetting, trial: Trial | None) -> str:
    """Return what a job measured, at its largest size, as one line."""
    start = f"job {number}: {setting.name}: "
    if trial is None:
        return f"{start}failed"
    if not trial.is_right:
        return f"{start}wrong values"
    if not trial.gb_s:
        return f"{start}no size was measured"
    size = max(trial.gb_s)
    return f"{start}{format_gb_s(trial.gb_s[size])} at {format_size(size)}"


def answer_lines(result: TuneResult) -> Iterator[str]:
    """Yield what to do, and why."""
    for setting, why in result.refused.items():
        if setting != DEFAULTS:
            yield f"dropped: {setting.name}: {why}"
    if DEFAULTS in result.refused:
        yield "the nodes give wrong values without any setting. Run: rdmaprov accept SITE"
        return
    if result.is_default:
        yield (
            f"leave the defaults: nothing is better by 3 % and beyond the noise "
            f"({quantity(result.jobs, 'job')})"
        )
        return
    yield f"for all sizes, {result.of_fleet[0].setting.name}; into the site:"
    yield from site_lines(result.of_fleet)
    yield f"{quantity(result.jobs, 'job')}. Apply one change, then run: rdmaprov accept SITE"


def site_lines(gains: Sequence[Gain]) -> Iterator[str]:
    """Yield what to write into a site for its setting, with what that gains by size."""
    for gain in gains:
        size = format_size(gain.size)
        yield f"# {size}: +{100 * gain.share:.0f} %, at least +{100 * gain.least:.0f} %"
    yield "nccl_environment:"
    for name, value in gains[0].setting.environment.items():
        yield f'  {name}: "{value}"'


def result_as_data(result: TuneResult, trials: Sequence[Measured]) -> dict[str, Any]:
    """Return the result with all that was measured; GB/s are bus bandwidths, by bytes."""
    return {
        "leave_defaults": result.is_default,
        "jobs": result.jobs,
        "of_fleet": [_gain(gain) for gain in result.of_fleet],
        "dropped": {setting.name: why for setting, why in result.refused.items()},
        "tests": [_test(test) for test in result.tests],
        "trials": [_trial(setting, trial) for setting, trial in trials],
    }


def _gain(gain: Gain) -> dict[str, Any]:
    return {
        "setting": gain.setting.name,
        "environment": dict(gain.setting.environment),
        "bytes": gain.size,
        "gain": round(gain.share, 4),
        "at_least": round(gain.least, 4),
    }


def _test(test: GainTest) -> dict[str, Any]:
    # No bound follows from few blocks: it is infinite then.
    least = test.least if test.least is not None and math.isfinite(test.least) else None
    return {
        "setting": test.setting.name,
        "bytes": test.size,
        "gain": round(test.share, 4),
        "at_least": None if least is None else round(least, 4),
        "blocks": test.blocks,
        "believed": test.is_believed,
    }


def _trial(setting: NcclSetting, trial: Trial | None) -> dict[str, Any]:
    if trial is None:
        return {"setting": setting.name, "failed": True}
    gb_s = {str(size): round(value, 3) for size, value in sorted(trial.gb_s.items())}
    return {"setting": setting.name, "right": trial.is_right, "gb_s": gb_s}


@dataclass
class _TuneAnswer:
    """What came of a run."""

    code: ExitCode
    lines: list[str]
    data: dict[str, Any] = field(default_factory=dict)


def measure(
    site: Path,
    limit: str | None,
    size_range: str,
    launcher: str | None,
    slurm_job: str | None,
    wait_s: float,
    json_file: IO[str] | None,
    **passwords: Unpack[PasswordOptions],
) -> int:
    """Compare settings on the nodes of a site; return the exit code."""
    wanted = parse_sizes(size_range) if size_range else ()
    with site_lock(site, wait_s), session.prepare(site, limit, json_file, passwords) as ready:
        if len(ready.nodes) < 2:
            what = f"{', '.join(ready.nodes)}: tune needs two nodes or more"
            raise UsageError(what, "Select two nodes or more with --limit")
        session.say_expected(ready.screen, expected(site, "tune", len(ready.nodes)))
        head = Head("tune", site, limit, datetime.now(UTC), ready.waivers)
        with RunDirectory("tune", ready.mask, "trials.log") as directory:
            answer = _answer(ready, directory, wanted, launcher or "", slurm_job or "")
        text = directory.write_results(_document(head, ready, answer))
        lines = map(Line, answer.lines)
        session.conclude(directory, text, lines, ready.screen, json_file)
    return answer.code


def _document(head: Head, ready: session.Prepared, answer: _TuneAnswer) -> dict[str, Any]:
    """Return results.json, as docs/results.schema.json defines it."""
    more = {"backend": "", "sizes": [], **result_as_data(TuneResult(), ()), "said": answer.lines}
    nodes: dict[str, Any] = {name: {} for name in ready.nodes}
    return results_document(
        head, datetime.now(UTC), answer.code, nodes, {**more, "leave_defaults": False} | answer.data
    )


def _answer(
    ready: session.Prepared,
    directory: RunDirectory,
    wanted: tuple[int, ...],
    launcher: str,
    slurm_job: str,
) -> _TuneAnswer:
    chosen = choose(ready.fleet.nodes, launcher, slurm_job)
    nodes = tuple(with_launcher(node, chosen.launcher) for node in ready.fleet.nodes)
    with open_nodes(ready.fleet, chosen, None, ready.given.become) as connection:
        ready.screen.remark(Line(f"preflight: {quantity(len(nodes), 'node')}"))
        found_site, backend, found = ready_site(connection, nodes)
        if found_site is None:
            return _not_ready(found)
        if backend != "nccl":
            return _TuneAnswer(ExitCode.OK, [NO_NCCL], {"backend": backend, "leave_defaults": True})
        return _compare(ready, directory, found_site, Launcher(connection), wanted)


def _not_ready(found: list[Finding]) -> _TuneAnswer:
    """Return why nothing was measured; what is known to be wrong counts first."""
    code = ExitCode.FAILED if any(each.proven for each in found) else ExitCode.UNKNOWN
    lines = [each.text for each in merge_lost(found)]
    return _TuneAnswer(code, [*lines, "nothing was measured: the nodes are not ready"])


def _compare(
    ready: session.Prepared,
    directory: RunDirectory,
    site: GateSite,
    runner: Launcher,
    wanted: tuple[int, ...],
) -> _TuneAnswer:
    chosen = tune_sizes(site, wanted)
    plan = TunePlan(tuple(usual_settings()), chosen)
    ready.screen.remark(Line(f"tune: {sizes_line(site, chosen)}"))
    trials: list[tuple[NcclSetting, Trial | None]] = []

    def keep(setting: NcclSetting, trial: Trial | None) -> None:
        trials.append((setting, trial))
        line = trial_line(len(trials), setting, trial)
        directory.log(line)
        ready.screen.remark(Line(line))

    try:
        result = Tuner(plan, TuneJobs(site, runner.run, chosen, keep).measure).run()
    except KeyboardInterrupt:
        line = f"interrupted after {quantity(len(trials), 'job')}: nothing is concluded"
        return _TuneAnswer(ExitCode.INTERRUPTED, [line], result_as_data(TuneResult(), trials))
    data = {"backend": "nccl", "sizes": list(chosen), **result_as_data(result, trials)}
    lines = list(answer_lines(result))
    code = _code(result, trials)
    if code is ExitCode.UNKNOWN:
        lines = ["no job without a setting ended well. Run: rdmaprov accept SITE"]
    return _TuneAnswer(code, lines, data)


def _code(result: TuneResult, trials: list[tuple[NcclSetting, Trial | None]]) -> ExitCode:
    if DEFAULTS in result.refused:
        return ExitCode.FAILED
    known = any(trial for setting, trial in trials if setting == DEFAULTS)
    return ExitCode.OK if known else ExitCode.UNKNOWN
