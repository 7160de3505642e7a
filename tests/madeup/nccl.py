"""A made-up NCCL whose best settings are known, and what a plan of tuning makes of it.

It has a curve of bus bandwidth by size, and settings that change it by known shares.
bench/tune.py says what noise there is, and what is counted.
"""

import random
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from rdmaprov.tuner.model import Trial, TunePlan, TuneResult
from rdmaprov.tuner.plan import HARMLESS, Tuner
from rdmaprov.tuner.settings import NcclSetting, usual_settings

SIZES = tuple(1 << power for power in (16, 20, 23, 26, 28, 30, 32, 33))
SMALL, LARGE = SIZES[:2], SIZES[4:]
NOISE, DRIFT, SLOW, SLOWER = 0.03, 0.05, 0.05, 0.30
LARGE_GAIN, OF_BEST = 0.10, 0.75
# Setting → size → share by which it is better.
Effects = Mapping[str, Mapping[int, float]]


@dataclass
class MadeUpNccl:
    """An NCCL whose best settings are known; others are `worse`, and `wrong` gives wrong values."""

    effects: Effects = field(default_factory=dict)
    worse: float = 0.0
    wrong: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._state = 1.0

    def effect(self, setting: NcclSetting, size: int) -> float:
        if not setting.environment:
            return 0.0
        return self.effects.get(setting.name, {}).get(size, -self.worse)

    def measure(self, setting: NcclSetting) -> Trial:
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


QUEUE_PAIRS, PXN = "4 queue pairs that share each message", "no PXN"
CASES: dict[str, dict[str, object]] = {
    "nothing is better, all the same": {},
    "nothing is better, the others are 10 % worse": {"worse": 0.10},
    "4 queue pairs: +15 % from 256 MiB on": {"effects": {QUEUE_PAIRS: _at(LARGE, 0.15)}},
    "no PXN: +25 % up to 1 MiB": {"effects": {PXN: _at(SMALL, 0.25)}},
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
    settings = tuple(usual_settings())
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
    if any(nccl.effect(gain.setting, gain.size) <= 0 for gain in result.of_fleet):
        return True
    fleet = {gain.setting for gain in result.of_fleet}
    return any(nccl.effect(setting, size) < -HARMLESS for setting in fleet for size in SIZES)


def _hits(
    nccl: MadeUpNccl, settings: tuple[NcclSetting, ...], result: TuneResult
) -> Iterator[bool]:
    """Yield for each size that can gain much whether its gain was found."""
    harmful = {
        setting for setting in settings if min(nccl.effect(setting, size) for size in SIZES) < 0
    }
    may = [s for s in settings if s.name != nccl.wrong and s not in harmful]
    for size in SIZES:
        best = max((nccl.effect(setting, size) for setting in may), default=0.0)
        if best >= LARGE_GAIN:
            own = [nccl.effect(g.setting, size) for g in result.of_fleet if g.size == size]
            yield max(own, default=0.0) >= OF_BEST * best
