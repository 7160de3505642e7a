"""What is read of a hang before a rank is ended: bounded, and taken only in its shape."""

from __future__ import annotations

import json

import pytest

from rdmaprov.acceptance.agent.tasks import MOST_CHARACTERS, flight_record
from rdmaprov.acceptance.ranks.events import MOST_RECORD, parse_event
from rdmaprov.boundary import OddAnswer


def test_flight_record_keeps_its_end_and_its_error_is_no_failure():
    assert flight_record(lambda: b"a" * MOST_CHARACTERS + b"end")[-4:] == "aend"
    assert len(flight_record(lambda: "a" * 3 * MOST_CHARACTERS)) == MOST_CHARACTERS
    assert "no flight record" in flight_record(lambda: 1 / 0)


def test_record_is_taken_up_to_its_bound():
    assert MOST_RECORD == MOST_CHARACTERS
    event = {"rank": 0, "event": "flight", "plane": "all rails", "task": 0, "group": 0}
    said = {**event, "text": "\x1b[2J" + "x" * (MOST_RECORD - 4)}
    assert parse_event(json.dumps(said), range(1), 1) == said
    for text in ("x" * (MOST_RECORD + 1), "\ud800", None, 1):
        with pytest.raises(OddAnswer):
            parse_event(json.dumps({**event, "text": text}), range(1), 1)
