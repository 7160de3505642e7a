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
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.madeup.nccl import CASES, score

REPEATS = 10
# Queue pairs (4), split (2), PXN (2), GDR (2), buffers (4).
FULL_GRID = 4 * 2 * 2 * 2 * 4 * REPEATS


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
