"""The texts of a subnet as a stranger could write them: garbled, cut early, endless numbers."""

import random
import re

import pytest
from tests.unit.helpers.subnet_texts import DISCOVERY, ERRORS, MANAGERS, STATES, TABLES, Texts

from rdmaprov.subnet.judge import SubnetVerdict

NAMES = (DISCOVERY, TABLES, STATES, ERRORS, MANAGERS, "perfquery/ports.txt")
CHARACTERS = "\0\n\t\"'[]()=:x9\u202e\u2603"


@pytest.mark.parametrize("name", NAMES[:3])
@pytest.mark.parametrize("seed", range(7))
def test_a_garbled_text_is_never_healthy(tmp_path, name, seed):
    texts, chance = Texts(tmp_path), random.Random(seed)
    letters = list(texts.read(name))
    for _ in range(len(letters) // 50):
        letters[chance.randrange(len(letters))] = chance.choice(CHARACTERS)
    texts.write(name, "".join(letters))
    assert texts.judge().verdict is not SubnetVerdict.HEALTHY


@pytest.mark.parametrize("name", NAMES)
def test_a_number_of_5000_digits_is_no_number(tmp_path, name):
    """Python refuses to convert more than 4,300 digits; each number of a text is tried alone."""
    texts = Texts(tmp_path)
    whole = texts.read(name)
    numbers = list(re.finditer(r"\b[0-9]+\b", whole))
    for found in numbers[:: max(1, len(numbers) // 40)]:
        texts.write(name, whole[: found.start()] + "9" * 5000 + whole[found.end() :])
        assert "9" * 30 not in "".join(problem.what for problem in texts.judge().problems)


@pytest.mark.parametrize("name", [DISCOVERY, TABLES, STATES, "perfquery/ports.txt"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_text_without_its_last_lines_is_not_verified(tmp_path, name, share):
    texts = Texts(tmp_path)
    lines = texts.read(name).splitlines(keepends=True)
    texts.write(name, "".join(lines[: int(len(lines) * share)]))
    assessment = texts.judge()
    assert assessment.verdict != SubnetVerdict.HEALTHY
    assert any(name in each.what for each in assessment.problems), assessment.problems
