"""One class name has one meaning: in src/ each is defined once, a report's own words everywhere."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def definitions(name: str) -> list[Path]:
    """Return the modules that define a class of this name."""
    return [
        path
        for folder in ("src", "plugins", "validate")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(rf"^\s*class {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Problem", "src/rdmaprov/problem.py"),
        ("Finding", "src/rdmaprov/finding/finding.py"),
        ("Judgement", "src/rdmaprov/bandwidth/floor_model.py"),
    ],
)
def test_word_of_a_report_is_one_class(name: str, module: str):
    assert definitions(name) == [ROOT / module]


def test_class_of_the_controller_has_a_name_of_its_own():
    names = Counter(
        name
        for path in (ROOT / "src" / "rdmaprov").rglob("*.py")
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert [name for name, count in names.items() if count > 1] == []
