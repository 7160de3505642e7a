"""What `--help` costs, of the program and of each verb: times a Python that only imports click.

    python bench/help.py [REPEATS]

Processor time, so that a busy machine does not count; and `ansible --help`, to compare.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rdmaprov.cli import VERBS

BIN = Path(sys.executable).parent


def processor_s(command: Sequence[str], repeats: int) -> float:
    """Return the median of the processor seconds that a command takes."""
    taken = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(taken)


def main(repeats: int) -> None:
    """Print a line for each command."""
    bare = processor_s([sys.executable, "-c", "import click"], repeats)
    program = str(BIN / "rdmaprov")
    commands = {"ansible --help": [str(BIN / "ansible"), "--help"]}
    for verb in ("", *VERBS):
        words = [verb] if verb else []
        commands[" ".join(["rdmaprov", *words, "--help"])] = [program, *words, "--help"]
    print(f"{'import click':26} {bare * 1e3:4.0f} ms")
    for name, command in commands.items():
        seconds = processor_s(command, repeats)
        print(f"{name:26} {seconds * 1e3:4.0f} ms  {seconds / bare:4.1f} times", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
