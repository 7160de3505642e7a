"""What left `make test` with the virtual machines, what proves the same there, and what breaks it.

`python -m tests.unit.helpers.mutants` writes the table of docs/tests.md.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
LIST = ROOT / "tests" / "mutants.yml"
PAGE = ROOT / "docs" / "tests.md"
BEGIN, END = "<!-- tests/mutants.yml: begin -->\n", "<!-- tests/mutants.yml: end -->\n"
ALL = "*"


@dataclass(frozen=True)
class Entry:
    """A kind of fault or behaviour, as the head of tests/mutants.yml describes it."""

    kind: str
    moved: Mapping[str, Sequence[str]]
    faults: Sequence[str] = ()
    proof: str = ""
    file: str = ""
    line: str = ""
    broken: str = ""
    only: str = ""


@functools.cache
def entries() -> list[Entry]:
    return [Entry(**each) for each in yaml.safe_load(LIST.read_text())]


def mutants() -> list[Entry]:
    return [each for each in entries() if each.line]


def break_line(text: str, entry: Entry) -> str:
    lines = text.splitlines(keepends=True)
    (at,) = (at for at, line in enumerate(lines) if line.strip() == entry.line)
    lines[at] = lines[at].replace(entry.line, entry.broken)
    return "".join(lines)


def table() -> str:
    lines = ["| kind | in `make test-lab` | in `make test` |", "|---|---|---|"]
    for each in entries():
        moved = ", ".join(
            f"`{file}`" + f" ({len(names)})" * (len(names) > 1)
            for file, names in each.moved.items()
        )
        kind = each.kind + (
            f": {', '.join(f'`{name}`' for name in each.faults)}" * bool(each.faults)
        )
        proof = f"`{each.proof.removeprefix('tests/')}`" if each.proof else f"none: {each.only}"
        lines.append(f"| {kind} | {moved} | {proof} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
