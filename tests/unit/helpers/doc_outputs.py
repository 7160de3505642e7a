"""Commands of pages with what they print, and what they print now."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.unit.helpers.doc_commands import FENCE

from rdmaprov import cli


@dataclass(frozen=True)
class ShownCommand:
    """A command line of rdmaprov, and the lines that a page shows below it."""

    line: str
    output: str


def shown_commands(text: str) -> Iterator[ShownCommand]:
    """Yield the commands of fenced blocks with `$ `, in their order."""
    for block in FENCE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, output = part.partition("\n")
            if line.startswith("rdmaprov "):
                yield ShownCommand(line, output)


def output_of(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints on standard output."""
    cli.run(shlex.split(line)[1:])
    return capsys.readouterr().out
