"""How often a plan of tuning finds what is better on a made-up NCCL, and how often it errs.

    python bench/tune.py [--seeds 1000]

prints the table of docs/tune.md. A made-up NCCL has a curve of bus bandwidth by size, and settings
that change it by known shares. Each measurement has 3 % noise. Of twenty jobs, one is also up to
30 % slower, as by another job. Over many jobs the fleet drifts by 5 %.

found
    Of all sizes with a setting that is better by 10 % or more: the share for which the plan
    recommends a setting that has at least three quarters of the best one's gain.
false
    The share of seeds with any gain that is believed where the setting has none at that size, or
    with a setting for the fleet that costs more than 2 % at another size.
jobs
    Measurements, on average. A full grid has each combination of the settings' values, ten times.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rdmaprov.tuner.model import Gain, Trial, TunePlan, TuneResult
from rdmaprov.tuner.plan import HARMLESS, Tuner
from rdmaprov.tuner.settings import NcclSetting, usual_settings

SIZES = tuple(1 << power for power in (16, 20, 23, 26, 28, 30, 32, 33))
SMALL, LARGE = SIZES[:2], SIZES[4:]
NOISE, DRIFT, SLOW, SLOWER = 0.03, 0.05, 0.05, 0.30
LARGE_GAIN, OF_BEST = 0.10, 0.75
REPEATS = 10
# Algorithms and protocols (7), channels (3), queue pairs (4),
# split (2), PXN (2), GDR (2), buffers (4).
FULL_GRID = 7 * 3 * 4 * 2 * 2 * 2 * 4 * REPEATS
# Setting → size → share by which it is better.
Effects = Mapping[str, Mapping[int, float]]


@dataclass
class MadeUpNccl:
    """An NCCL whose best settings are known.

    Args:
        effects: of settings; what is not there has none.
        worse: the share by which every other setting is worse.
        wrong: a setting that gives wrong values.
        seed: of noise and drift.

    """

    effects: Effects = field(default_factory=dict)
    worse: float = 0.0
    wrong: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        """Begin the noise."""
        self._chance = random.Random(self.seed)  # noqa: S311 - a simulation's
        self._state = 1.0

    def effect(self, setting: NcclSetting, size: int) -> float:
        """Return the true share by which a setting is better than the defaults at a size."""
        if not setting.environment:
            return 0.0
        return self.effects.get(setting.name, {}).get(size, -self.worse)

    def measure(self, setting: NcclSetting) -> Trial:
        """Return what a job with a setting measures."""
        self._state = 1 + (self._state - 1) * 0.95 + self._chance.gauss(0, DRIFT * 0.3)
        slow = 1 - self._chance.uniform(0, SLOWER) * (self._chance.random() < SLOW)
        found = {
            size: self._gb_s(size)
            * (1 + self.effect(setting, size))
            * self._state
            * slow
            * (1 + self._chance.gauss(0, NOISE))
            for size in SIZES
        }
        return Trial(found, setting.name != self.wrong)

    @staticmethod
    def _gb_s(size: int) -> float:
        """Return the bus bandwidth of the defaults: 370 GB/s, and 200 us that no size shortens."""
        return size / (size / 370 + 200e3)


def _at(sizes: tuple[int, ...], share: float) -> dict[int, float]:
    return dict.fromkeys(sizes, share)


QUEUE_PAIRS, TREE = "4 queue pairs that share each message", "Tree, LL128, 16 channels"
CASES: dict[str, dict[str, object]] = {
    "nothing is better, all the same": {},
    "nothing is better, the others are 10 % worse": {"worse": 0.10},
    "4 queue pairs: +15 % from 256 MiB on": {"effects": {QUEUE_PAIRS: _at(LARGE, 0.15)}},
    "Tree by LL128: +25 % up to 1 MiB": {"effects": {TREE: _at(SMALL, 0.25)}},
    "both of these, the others are 5 % worse": {
        "effects": {
            QUEUE_PAIRS: {**_at(SIZES, 0.0), **_at(LARGE, 0.15)},
            TREE: {**_at(SIZES, -0.2), **_at(SMALL, 0.25)},
        },
        "worse": 0.05,
    },
    "+15 % at large sizes, 20 % less at small ones": {
        "effects": {QUEUE_PAIRS: {**_at(SMALL, -0.20), **_at(LARGE, 0.15)}}
    },
    "the best one gives wrong values": {
        "effects": {QUEUE_PAIRS: _at(LARGE, 0.40)},
        "wrong": QUEUE_PAIRS,
    },
}


@dataclass(frozen=True)
class TuneScore:
    """What came of a case: shares of seeds or sizes, and jobs on average."""

    found: float | None
    false: float
    default: float
    jobs: float


def score(case: str, seeds: range) -> TuneScore:
    """Return how often a plan is right and wrong in a case."""
    settings = usual_settings(rdma=True, nvls=True)
    hits: list[bool] = []
    false, default, jobs = 0, 0, []
    for seed in seeds:
        nccl = MadeUpNccl(**CASES[case], seed=seed)  # type: ignore[arg-type]
        result = Tuner(TunePlan(settings, SIZES, seed=seed), nccl.measure).run()
        false += _is_false(nccl, result)
        default += result.is_default
        jobs.append(result.jobs)
        hits += _hits(nccl, settings, result)
    count = len(seeds)
    found = statistics.fmean(hits) if hits else None
    return TuneScore(found, false / count, default / count, statistics.fmean(jobs))


def _is_false(nccl: MadeUpNccl, result: TuneResult) -> bool:
    """Return whether a plan recommends what is no gain, or harms a size."""
    if any(nccl.effect(gain.setting, gain.size) <= 0 for gain in _gains(result)):
        return True
    fleet = {gain.setting for gain in result.of_fleet}
    return any(nccl.effect(setting, size) < -HARMLESS for setting in fleet for size in SIZES)


def _gains(result: TuneResult) -> list[Gain]:
    return [*result.of_sizes, *result.of_fleet]


def _hits(
    nccl: MadeUpNccl, settings: tuple[NcclSetting, ...], result: TuneResult
) -> Iterator[bool]:
    """Yield for each size that can gain much whether its gain was found."""
    harmful = {
        setting
        for setting in settings
        if not setting.is_of_a_size and min(nccl.effect(setting, size) for size in SIZES) < 0
    }
    may = [s for s in settings if s.name != nccl.wrong and s not in harmful]
    for size in SIZES:
        best = max(nccl.effect(setting, size) for setting in may)
        if best >= LARGE_GAIN:
            own = [nccl.effect(g.setting, size) for g in _gains(result) if g.size == size]
            yield max(own, default=0.0) >= OF_BEST * best


def table(seeds: int) -> Iterator[str]:
    """Yield the rows of docs/tune.md."""
    yield "| made-up NCCL | found | false | leave the defaults | jobs |"
    yield "|---|---|---|---|---|"
    for case in CASES:
        found = score(case, range(seeds))
        hit = "" if found.found is None else f"{100 * found.found:.1f} %"
        yield (
            f"| {case} | {hit} | {100 * found.false:.1f} % | {100 * found.default:.1f} % | "
            f"{found.jobs:.0f} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, default=1000)
    seeds = parser.parse_args().seeds
    for row in table(seeds):
        print(row, flush=True)
    print(f"\n{seeds} seeds; a full grid has {FULL_GRID:,} jobs")


if __name__ == "__main__":
    main()
