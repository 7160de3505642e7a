"""Kinds of findings: each is made somewhere, and no other can be."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rdmaprov.facts import gpu_health
from rdmaprov.finding.finding import Finding
from rdmaprov.finding.kinds import kinds

SOURCE = Path(__file__).parents[3] / "src/rdmaprov"
KIND = re.compile(r"[a-z]+\.[a-z-]+")


def named(path: Path) -> Iterator[str]:
    """Yield the texts of a module that may be kinds, those of its docstrings left out."""
    for each in ast.walk(ast.parse(path.read_text())):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def test_each_kind_is_made_and_each_that_is_made_is_known():
    texts = {text for path in SOURCE.rglob("*.py") for text in named(path)}
    texts |= {row["kind"] for row in gpu_health.table()}
    assert kinds().keys() - texts == set()
    assert [name for name in kinds() if not KIND.fullmatch(name)] == []


def test_kind_that_nobody_knows_is_refused():
    with pytest.raises(KeyError):
        Finding("rail.sloe", "what", "remedy")


def test_kinds_are_in_the_order_of_their_names_and_say_all():
    assert list(kinds()) == sorted(kinds())
    assert [name for name, kind in kinds().items() if not all(kind)] == []
