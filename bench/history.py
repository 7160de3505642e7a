"""How often `rdmaprov history` sees a change where there is none, and how often it finds one.

    python bench/history.py [--series 5000]

prints the tables of docs/history.md. A made-up series is one value for each run: a level, with
normal noise. With spikes, one run of twenty has eight times the noise. The same seeds each time.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from rdmaprov.history.shift import shifts

RUNS = (10, 15, 30, 100)
NOISES = (0.01, 0.02, 0.05, 0.1)
SPIKES, SPIKE = 1 / 20, 8
CHANGES = (
    ("at once", 0.05),
    ("at once", 0.08),
    ("at once", 0.1),
    ("each run", 0.01),
    ("each run", 0.02),
)
AT, LENGTH, NOISE = 16, 30, 0.01


def noisy(chance: random.Random, level: float, noise: float, spikes: bool) -> float:
    """Return one value."""
    own = noise * SPIKE if spikes and chance.random() < SPIKES else noise
    return max(0.0, level * chance.gauss(1, own))


def alarms(count: int, noise: float, spikes: bool, series: int) -> float:
    """Return the share of series without a change in which one is seen."""
    chance = random.Random(f"{count} {noise} {spikes}")  # noqa: S311
    made = ([noisy(chance, 46, noise, spikes) for _ in range(count)] for _ in range(series))
    return sum(bool(shifts(values)) for values in made) / series


def found(kind: str, size: float, series: int) -> tuple[float, float, float]:
    """Return the shares of series whose change is seen, of the right kind, within two runs."""
    chance = random.Random(f"{kind} {size}")  # noqa: S311
    seen = right = near = 0
    for _ in range(series):
        lost = [
            size * (max(0, n - AT + 1) if kind == "each run" else n >= AT) for n in range(LENGTH)
        ]
        got = shifts([noisy(chance, 46 * (1 - each), NOISE, spikes=False) for each in lost])
        seen += bool(got)
        right += bool(got) and got[0].is_drift == (kind == "each run")
        near += bool(got) and abs(got[0].place - AT) <= 2
    return seen / series, right / series, near / series


def tables(series: int) -> Iterator[str]:
    """Yield both tables."""
    yield "| noise | " + " | ".join(f"{count} runs" for count in RUNS) + " |"
    yield "|---|" + "---|" * len(RUNS)
    for spikes in (False, True):
        for noise in NOISES:
            cells = [f"{100 * alarms(count, noise, spikes, series):.2f} %" for count in RUNS]
            name = f"{100 * noise:.0f} %{' with spikes' if spikes else ''}"
            yield f"| {name} | {' | '.join(cells)} |"
    yield ""
    yield "| change at run 17 of 30 | seen | of the right kind | within two runs |"
    yield "|---|---|---|---|"
    for kind, size in CHANGES:
        cells = [f"{100 * share:.1f} %" for share in found(kind, size, max(1, series // 5))]
        yield f"| {100 * size:.0f} % {kind} | {' | '.join(cells)} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--series", type=int, default=5000)
    for row in tables(parser.parse_args().series):
        print(row, flush=True)


if __name__ == "__main__":
    main()
