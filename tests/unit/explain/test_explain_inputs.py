"""The table of inputs: docs/explain.md has its rows, and no text is of two of them."""

import re
from pathlib import Path

import pytest
import yaml

from rdmaprov.explain.explain import find_inputs, inputs
from rdmaprov.explain.fabric import TABLE
from rdmaprov.explain.model import read_given

ROOT = Path(__file__).parents[3]
FIXTURES = ROOT / "tests/fixtures"
INPUTS = inputs()
EXPECTED = yaml.safe_load((FIXTURES / "explain/expected.yml").read_text())
PAGE = (ROOT / "docs/explain.md").read_text()


def row(kind):
    return f"| `{kind.id}` | {kind.what} | {kind.tells} | {kind.not_tells} |"


@pytest.mark.parametrize("kind", INPUTS, ids=lambda kind: kind.id)
def test_page_has_the_row(kind):
    assert row(kind) in PAGE.splitlines()


def test_page_has_no_other_row():
    table = PAGE.partition("## The table of inputs")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == [row(kind) for kind in INPUTS]


@pytest.mark.parametrize("kind", yaml.safe_load(TABLE.read_text()), ids=lambda kind: kind["id"])
def test_each_pattern_has_one_of_the_row_s_words(kind):
    patterns = [*kind.get("only", ()), *(each["only"] for each in kind.get("texts", ()))]
    for pattern in patterns if kind["has"] else ():
        for part in re.split(r"\|(?=\^|\\b)", pattern):
            assert any(word in re.sub(r"\\(\W)", r"\1", part) for word in kind["has"]), part


def test_each_input_with_a_reader_has_a_text():
    files = sorted({file for case in EXPECTED for file in case["files"]})
    found = {kind.id for file in files for kind in find_inputs(read_given(str(FIXTURES / file)))}
    assert found == {kind.id for kind in INPUTS}


@pytest.mark.parametrize("room", ["perftest", "nccl-tests", "machines", "subnet", "switches"])
def test_no_text_of_a_tool_is_of_two_inputs(room):
    files = [each for each in (FIXTURES / room).rglob("*.txt") if each.is_file()]
    found = {str(file): [kind.id for kind in find_inputs(read_given(str(file)))] for file in files}
    assert {file: ids for file, ids in found.items() if len(ids) > 1} == {}
