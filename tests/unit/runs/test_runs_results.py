"""Verbs that keep a run: each reader of results.json knows all of them."""

from __future__ import annotations

from rdmaprov.history import read_run
from rdmaprov.report import write
from rdmaprov.runs.results import VERBS


def test_each_reader_knows_each_verb_that_keeps_a_run():
    assert set(write._VIEWS) == set(read_run._VERBS) == set(VERBS)
