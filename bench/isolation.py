"""Isolation without a fleet: made-up fabrics that answer for pairs, and how often it errs.

    python bench/isolation.py

prints the table of docs/isolation.md. The fabrics are those of tests/madeup/isolation.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.madeup.isolation import KINDS, rates

# Nodes, nodes of a leaf, and trials of each fault.
SHAPES = ((64, 16, 20), (512, 32, 3))


def table() -> str:
    """Return the table of docs/isolation.md: each fault in fabrics with 1 % noise."""
    lines = ["| fault | nodes | named | something else named | rounds |", "|---|---|---|---|---|"]
    for kind in KINDS:
        for count, size, trials in SHAPES:
            seen = rates(kind, count, size, trials)
            lines.append(
                f"| {kind} | {count} | {seen.found:.1%} | {seen.false:.1%} | {seen.rounds:.1f} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    click.echo(table(), nl=False)
