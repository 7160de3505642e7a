"""Time and memory of `explain subnet`, and of the tools that it reads, on a fabric of ibsim.

    python bench/subnet.py --nodes 512 --rails 8

It makes the fabric with `rdmaprov lab subnet`, in a directory of its own, asks it with each tool,
and judges the texts in a process of its own. Seconds are elapsed time; memory is the largest that
a process had, in MiB (getrusage, ru_maxrss).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TOOLS = ("ibnetdiscover -p", "dump_fts", "iblinkinfo -l", "ibqueryerrors")


def measure(words: Sequence[str]) -> tuple[float, float]:
    """Return the elapsed seconds and the memory in MiB of one run of rdmaprov."""
    began = time.monotonic()
    started = subprocess.Popen(
        [sys.executable, "-m", "rdmaprov", *words], stdout=subprocess.DEVNULL
    )
    _, _, usage = os.wait4(started.pid, 0)
    return time.monotonic() - began, usage.ru_maxrss / 1024


def main() -> None:
    """Print one line for each tool, and one for the judgement."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--nodes", type=int, default=512)
    options.add_argument("--rails", type=int, default=8)
    options.add_argument("--nodes-per-leaf", type=int, default=32)
    options.add_argument("--spines", type=int, default=32)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        lab = ["lab", "--dir", f"{place}/lab", "subnet"]
        size = [f"--{name.replace('_', '-')}={value}" for name, value in vars(given).items()]
        try:
            report("opensm", lab, ["up", "--cables=1", *size])
            for tool in TOOLS:
                report(tool, lab, ["run", "--", *tool.split()])
            report("all, with perfquery", lab, ["save", f"{place}/texts"])
            report("explain subnet", [], ["explain", "subnet", str(Path(place) / "texts")])
        finally:
            measure([*lab, "down"])


def report(name: str, before: Sequence[str], words: Sequence[str]) -> None:
    """Measure and print; memory is that of rdmaprov, not of the tools."""
    seconds, mib = measure([*before, *words])
    print(f"{name:<20} {seconds:>7.1f} s  {mib:>6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
