"""The tables of docs/strangers.md: how many wrong answers and strangers' inputs, and what held.

`python -m tests.cli.hostile.document` tries them all, prints the tables, and fails where one does
harm. RDMAPROV_FUZZ_SEED has it try other places of the same answers.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.cli.hostile.lies import SEED_VARIABLE, VERBS, Lie, of_verb, runs_of, seed
from tests.cli.hostile.stranger_inputs import AREAS
from tests.cli.hostile.strangers import tried
from tests.cli.hostile.verbs import Tally, total, try_run

HEAD = "| hostile answers to | tried | held |\n|---|---|---|\n"


def table(rows: Iterable[tuple[str, int, int]]) -> str:
    return HEAD + "".join(f"| `{verb}` | {tried} | {held} |\n" for verb, tried, held in rows)


def expected() -> str:
    """Return the table of a program that holds all of them."""
    return table((verb, len(of_verb(verb)), len(of_verb(verb))) for verb in VERBS)


STRANGERS = "| hostile input | tried | held | required exit code and effect |\n|---|---|---|---|\n"


def stranger_table(held: Mapping[str, tuple[int, int]]) -> str:
    """Return the table: of each area, how many were tried, how many held, and what that means."""
    rows = [(area, *held[area], meaning) for area, (_, meaning) in AREAS.items()]
    return STRANGERS + "".join(f"| {' | '.join(map(str, row))} |\n" for row in rows)


def main() -> int:
    import click

    click.echo(f"{SEED_VARIABLE}={seed()}", err=True)
    tallies: list[Tally] = []
    for verb in VERBS:
        tallies.append(total(verb, (_try(verb, lies) for _, lies in runs_of(verb))))
        for harm in tallies[-1].harm:
            click.echo(f"{verb}: {harm}", err=True)
    click.echo(table((each.verb, each.tried, each.held) for each in tallies), nl=False)
    held: dict[str, tuple[int, int]] = {}
    for area, (inputs, _) in AREAS.items():
        with tempfile.TemporaryDirectory() as directory:
            found = list(tried(inputs(), Path(directory)))
        for title, harms in found:
            if harms:
                click.echo(f"{area}: {title}: {'; '.join(harms)}", err=True)
        held[area] = len(found), sum(not harms for _, harms in found)
    click.echo(f"\n{stranger_table(held)}", nl=False)
    return int(any(each.harm for each in tallies) or any(a != b for a, b in held.values()))


def _try(verb: str, lies: list[Lie]) -> Tally:
    with tempfile.TemporaryDirectory() as directory:
        return try_run(verb, lies, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
