"""Texts that end early between two lines are not verified, as those that end within one."""

from __future__ import annotations

import pytest
from tests.unit.helpers.subnet_texts import DISCOVERY, STATES, TABLES, Texts

from rdmaprov.subnet.judge import SubnetVerdict


@pytest.mark.parametrize("name", [DISCOVERY, TABLES, STATES, "perfquery/ports.txt"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_text_without_its_last_lines_is_not_verified(tmp_path, name, share):
    texts = Texts(tmp_path)
    lines = texts.read(name).splitlines(keepends=True)
    texts.write(name, "".join(lines[: int(len(lines) * share)]))
    assessment = texts.judge()
    assert assessment.verdict != SubnetVerdict.HEALTHY
    assert any(name in each.what for each in assessment.problems), assessment.problems
