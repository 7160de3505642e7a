"""Whatever strangers make: each verb that meets no node ends soon, small, and with a right code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.hostile.document import STRANGERS, stranger_table
from tests.cli.hostile.stranger_inputs import AREAS
from tests.cli.hostile.strangers import tried

SECURITY = Path(__file__).parents[3] / "docs" / "security.md"


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone meets what no permission keeps off")
@pytest.mark.parametrize("area", AREAS)
def test_nothing_of_a_stranger_does_harm(area: str, tmp_path: Path):
    harm = {title: found for title, found in tried(AREAS[area][0](), tmp_path) if found}
    assert harm == {}


def test_security_page_has_the_numbers_that_are_tried():
    """Refresh with: python -m tests.cli.hostile.document."""
    numbers = {area: len(inputs()) for area, (inputs, _) in AREAS.items()}
    text = SECURITY.read_text()
    start = text.index(STRANGERS)
    assert text[start : text.index("\n\n", start) + 1] == stranger_table(
        {area: (number, number) for area, number in numbers.items()}
    )
    assert sum(numbers.values()) >= 300
    for area, (inputs, _) in AREAS.items():
        titles = [each.title for each in inputs()]
        assert len(set(titles)) == len(titles), area
