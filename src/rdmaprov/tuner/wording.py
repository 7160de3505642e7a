"""A tuning as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rdmaprov.bandwidth.rates import format_gb_s
from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.tuner.files import words
from rdmaprov.tuner.model import Gain, GainTest, Trial, TuneResult
from rdmaprov.tuner.settings import DEFAULTS, NcclSetting
from rdmaprov.words import quantity

Measured = tuple[NcclSetting, Trial | None]


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


def answer_lines(result: TuneResult, site_text: str) -> Iterator[str]:
    """Yield what to do, and why.

    Args:
        site_text: what to write into the site, empty if there is nothing.
    """
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
    for gain in result.of_sizes:
        yield f"{format_size(gain.size)}: {gain.setting.name}: {words(gain)}"
    if site_text:
        yield f"for all sizes, {result.of_fleet[0].setting.name}; into the site:"
        yield from site_text.splitlines()
    yield f"{quantity(result.jobs, 'job')}. Apply one change, then run: rdmaprov accept SITE"


def result_as_data(result: TuneResult, trials: Sequence[Measured]) -> dict[str, Any]:
    """Return the result with all that was measured; GB/s are bus bandwidths, by bytes."""
    return {
        "leave_defaults": result.is_default,
        "jobs": result.jobs,
        "of_sizes": [_gain(gain) for gain in result.of_sizes],
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
