"""The table of causes: each is found by words that NCCL, a plugin or torch writes."""

from pathlib import Path

import pytest
import yaml
from tests.tables import cases
from tools.nccl_wordings import wordings

from rdmaprov.explain.explain import explain_texts
from rdmaprov.explain.model import read_given
from rdmaprov.nccl_log.causes import UNKNOWN, causes, find_cause, last_error
from rdmaprov.nccl_log.troubles import TroubleTally

FIXTURES = Path(__file__).parents[2] / "fixtures/nccl"
SAID = yaml.safe_load((FIXTURES / "causes.yml").read_text())
ORDINARY = cases(__file__, "ordinary")


def test_every_cause_has_words():
    """Or a wording, which tests/unit/acceptance/test_blame_by_wordings.py holds."""
    assert {*SAID, *(row["read"] for row in wordings())} >= {*causes()} - {UNKNOWN}


@pytest.mark.parametrize("cause", SAID)
def test_each_cause_is_found_by_its_words(cause):
    found = find_cause(SAID[cause])
    assert found is not None
    assert found.id == cause
    assert "{" not in found.meaning(SAID[cause])


@pytest.mark.parametrize("words", ORDINARY)
def test_ordinary_words_are_no_cause(words):
    assert find_cause(words) is None


@pytest.mark.parametrize("words", cases(__file__, "gave_up").values())
def test_a_program_that_shows_no_log_of_nccl_is_no_unknown_one(words, tmp_path):
    (tmp_path / "out").write_text(f"{words}\n")
    (shown,) = explain_texts([read_given(str(tmp_path / "out"))])
    assert [each for each in shown.findings if each.proven and "NCCL gave up" in each.what]


@pytest.mark.parametrize("name", ["Last error", "Last RCCL warning"])
def test_last_error_is_read_to_its_end(name):
    said = f"[rank3]: NCCL error in: x.cpp:93\n[rank3]: {name}:\n[rank3]: Duplicate GPU detected\n"
    assert last_error(said) == "Duplicate GPU detected"
    assert last_error("no such text") == ""
    assert last_error(f"{name}:\nException raised from checkTimeout") == ""


ROOT = "Root Cause (first observed failure):"
LONG = "9" * 5000


@pytest.mark.parametrize(
    "lines",
    [
        (ROOT, "  exitcode  : N/A"),
        (ROOT, f"  exitcode  : {LONG}"),
        (ROOT, "  rank      : <N/A>", "  exitcode  : -9"),
        (ROOT, f"  rank      : {LONG}", "  exitcode  : -9"),
        ("[rank0]: x", f"[PG ID 0 PG GUID 0 Rank 0] last enqueued work: {LONG}"),
    ],
    ids=["no number", "long code", "no rank", "long rank", "long work"],
)
def test_numbers_that_are_none_are_passed_over(lines):
    tally = TroubleTally()
    for each in lines:
        tally.add_text(each.encode())
    assert (list(tally.troubles), tally.enqueued) == ([], {})
