"""Which settings are better than NCCL's defaults, by few measurements.

Measurements come in blocks: NCCL's defaults and each setting that is left, once each, in random
order. A setting's gain is its bus bandwidth against that of the defaults in the same block, so what
drifts from block to block cancels out. After each round the better half of the settings is left
(successive halving: K. Jamieson and A. Talwalkar, arXiv 1502.07943). Choosing the best of many
noisy numbers finds large ones, also where nothing is better. So the gains that count are measured
anew, only for those that were chosen.

A difference of two measurements that differ by noise alone is symmetric about zero, however long
the tails of the noise are. So the signed-rank test needs no normal noise (F. Wilcoxon, Individual
comparisons by ranking methods, 1945), and its bound follows from the averages of all pairs
(J. Hodges and E. Lehmann, Estimates of location based on rank tests, 1963).
"""

import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rdmaprov.tuner.model import Gain, GainTest, MeasureSetting, Trial, TunePlan, TuneResult
from rdmaprov.tuner.settings import DEFAULTS, NcclSetting

# Blocks of each round of choosing, and of the last one, which decides: our choice, by the table of
# docs/tune.md. More blocks find smaller gains; none makes noise more likely to be believed.
CHOOSING, DECIDING = 2, 16
FINALISTS = 4
# Less is not worth a variable that must be kept through every update of NCCL: our choice.
WORTHWHILE = 0.03
# A setting of the whole fleet may not cost more than this at any size: our choice.
HARMLESS, LOSS_ERROR = 0.02, 0.05
# Logarithms of gains by size.
Shares = Mapping[int, list[float]]


def centre(values: Sequence[float]) -> float:
    """Return the median of the averages of all pairs; not a number without values."""
    if not values:
        return math.nan
    averages = _averages(values)
    middle = len(averages) // 2
    return (averages[middle] + averages[~middle]) / 2


def lower_bound(values: Sequence[float], error: float) -> float:
    """Return what the centre is at least, except with this probability.

    Args:
        error: the probability that the centre is less, such as 0.05.

    Returns:
        Minus infinity if there are too few values to say it.
    """
    allowed = _below(len(values), error)
    return _averages(values)[allowed - 1] if allowed else -math.inf


def _averages(values: Sequence[float]) -> list[float]:
    return sorted(
        (one + other) / 2 for index, one in enumerate(values) for other in values[: index + 1]
    )


@lru_cache(maxsize=64)
def _below(count: int, error: float) -> int:
    """Return how many averages may lie below the centre, except with this probability.

    Of values that are symmetric about zero, each set of ranks is as likely to be the positive ones.
    """
    sums = [1] + [0] * (count * (count + 1) // 2)
    for rank in range(1, count + 1):
        for total in range(len(sums) - 1, rank - 1, -1):
            sums[total] += sums[total - rank]
    reached, allowed = 0, 0
    for ways in sums:
        reached += ways
        if reached > error * 2**count:
            break
        allowed += 1
    return allowed


@dataclass
class Tuner:
    """Performs a plan."""

    plan: TunePlan
    measure: MeasureSetting
    result: TuneResult = field(default_factory=TuneResult)

    def __post_init__(self) -> None:
        """Begin the order."""
        self._order = random.Random(self.plan.seed)  # noqa: S311 - an order, no secret

    def run(self) -> TuneResult:
        """Return which settings are better than NCCL's defaults."""
        seen: dict[NcclSetting, dict[int, list[float]]] = {}
        left = list(self.plan.settings)
        while len(left) > FINALISTS:
            self._blocks(left, CHOOSING, seen)
            if not seen:
                return self.result  # no job of the defaults ended well
            left = self._better_half(left, seen)
        if left and len(self.plan.settings) <= FINALISTS:
            self._blocks(left, CHOOSING, seen)
        chosen = self._chosen(left, seen)
        if chosen:
            self._decide(chosen)
        others = [_best_test(each, seen[each]) for each in seen if each not in chosen]
        self.result.tests += sorted(others, key=lambda test: test.share, reverse=True)
        return self.result

    def _blocks(
        self,
        settings: Collection[NcclSetting],
        count: int,
        seen: dict[NcclSetting, dict[int, list[float]]],
    ) -> None:
        """Measure blocks; add to `seen` the logarithms of gains by setting and size."""
        for _ in range(count):
            if DEFAULTS in self.result.refused:
                return
            trials = self._block(self._sound(settings))
            base = trials.pop(DEFAULTS, None)
            if base is None:
                continue
            for setting, trial in trials.items():
                own = seen.setdefault(setting, {})
                for size in self.plan.sizes:
                    if base.gb_s.get(size, 0) > 0 and trial.gb_s.get(size, 0) > 0:
                        share = math.log(trial.gb_s[size] / base.gb_s[size])
                        own.setdefault(size, []).append(share)

    def _block(self, settings: list[NcclSetting]) -> dict[NcclSetting, Trial]:
        """Measure the defaults and each setting once, in random order."""
        order = [DEFAULTS, *settings]
        self._order.shuffle(order)
        found = {}
        for setting in order:
            self.result.jobs += 1
            trial = self.measure(setting)
            if trial is not None and trial.is_right:
                found[setting] = trial
            elif trial is not None:
                self.result.refused[setting] = "wrong values"
            elif setting != DEFAULTS:  # without which its block does not count
                self.result.refused[setting] = "its job failed"
        return found

    def _sound(self, settings: Iterable[NcclSetting]) -> list[NcclSetting]:
        return [setting for setting in settings if setting not in self.result.refused]

    def _better_half(
        self, settings: list[NcclSetting], seen: Mapping[NcclSetting, Shares]
    ) -> list[NcclSetting]:
        """Return the half that gains most at the size where it gains most."""
        sound = self._sound(settings)
        sound.sort(key=lambda setting: _most(seen.get(setting, {})), reverse=True)
        return sound[: max(FINALISTS, math.ceil(len(sound) / 2))]

    def _chosen(
        self, settings: list[NcclSetting], seen: Mapping[NcclSetting, Shares]
    ) -> dict[NcclSetting, list[int]]:
        """Return the settings to decide on, with the sizes: one setting at most for each size."""
        chosen: dict[NcclSetting, list[int]] = {}
        sound = self._sound(settings)
        for size in self.plan.sizes:
            means = {
                setting: centre(seen[setting][size])
                for setting in sound
                if seen.get(setting, {}).get(size)
            }
            best = max(means, key=lambda setting: means[setting], default=None)
            if best is not None and math.expm1(means[best]) >= WORTHWHILE:
                chosen.setdefault(best, []).append(size)
        return chosen

    def _decide(self, chosen: Mapping[NcclSetting, Sequence[int]]) -> None:
        """Measure what was chosen anew, and keep the gains that are beyond the noise."""
        fresh: dict[NcclSetting, dict[int, list[float]]] = {}
        self._blocks(chosen, DECIDING, fresh)
        # One of all these tests would be wrong with `error` at most (Bonferroni).
        error = self.plan.error / sum(map(len, chosen.values()))
        fleet: list[list[Gain]] = []
        if DEFAULTS in self.result.refused:
            return
        for setting in self._sound(chosen):
            tests = [
                _test(setting, size, fresh[setting][size], error)
                for size in chosen[setting]
                if fresh.get(setting, {}).get(size)
            ]
            self.result.tests += tests
            gains = [
                Gain(setting, each.size, each.share, each.least)
                for each in tests
                if each.is_believed and each.least is not None
            ]
            if gains and _is_harmless(fresh[setting]):
                fleet.append(gains)
        self.result.of_fleet = max(fleet, key=_total, default=[])


def _most(shares: Shares) -> float:
    return max((centre(values) for values in shares.values()), default=-math.inf)


def _test(setting: NcclSetting, size: int, values: list[float], error: float) -> GainTest:
    """Return what the deciding blocks show; no gain is believed that noise may explain."""
    share, least = math.expm1(centre(values)), math.expm1(lower_bound(values, error))
    is_believed = least > 0 and share >= WORTHWHILE
    return GainTest(setting, size, share, least, len(values), is_believed)


def _best_test(setting: NcclSetting, shares: Shares) -> GainTest:
    """Return what the blocks of choosing show of a setting, at the size where it gains most."""
    size = max(shares, key=lambda each: centre(shares[each]))
    return GainTest(setting, size, math.expm1(centre(shares[size])), None, len(shares[size]))


def _is_harmless(shares: Shares) -> bool:
    """Return whether no size loses more than a fleet may, beyond the noise of that size."""
    allowed = -math.log1p(-HARMLESS)
    return not any(
        lower_bound([-value for value in values], LOSS_ERROR) > allowed
        for values in shares.values()
    )


def _total(gains: Sequence[Gain]) -> float:
    return sum(math.log1p(gain.share) for gain in gains)
