"""What ranks and supervisors print is taken as it is known, or makes their node unknown."""

import json

import pytest
from hypothesis import given
from hypothesis.strategies import (
    booleans,
    dictionaries,
    floats,
    integers,
    lists,
    none,
    recursive,
    sampled_from,
    text,
)
from tests.tables import cases
from tests.unit.helpers import accept_runs

from rdmaprov.acceptance.agent.tasks import MOST_CHARACTERS, flight_record
from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.ranks.events import MOST_LINE, MOST_RECORD, parse_event, parse_status
from rdmaprov.acceptance.ranks.run import NodeRun
from rdmaprov.acceptance.result import GateResult
from rdmaprov.boundary import OddAnswer
from rdmaprov.exit_codes import ExitCode
from rdmaprov.probe.connection import Answer

OWN, WORLD = range(2, 4), 8
ROW = cases(__file__, "row")
AT_TASK = {"plane": "rail 0", "task": 0, "group": 0}
AT = {"communicator": 1, "entered": 1, "left": 1, "phase": "", "process": ""}
OF_EACH_KIND = [event for event in accept_runs.healthy().events if event["rank"] == 0]
ANYTHING = recursive(
    none() | booleans() | integers() | floats() | text(),
    lambda inner: lists(inner, max_size=4) | dictionaries(text(), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.parametrize("event", OF_EACH_KIND, ids=lambda event: event["event"])
def test_event_of_a_rank_is_taken(event):
    assert parse_event(json.dumps(event), range(1), 4) == event


@pytest.mark.parametrize(
    "line", ["", "x", "[1]", "null", '{"level": "info"}', "[" * 100_000, "\x1b[2J", '{"rank": 2}']
)
def test_what_a_library_prints_is_passed_over(line):
    assert parse_event(line, OWN, WORLD) is None


@pytest.mark.parametrize(
    "change",
    [
        *cases(__file__, "event_that_no_rank_reports_is_odd"),
        *({"plane": text} for text in ("x" * 5000, "\ud800")),
        *({"median_us": float("nan")}, {"p99_us": float("inf")}),
    ],
    ids=str,
)
def test_event_that_no_rank_reports_is_odd(change):
    with pytest.raises(OddAnswer) as refused:
        parse_event(json.dumps({**ROW, **change}), OWN, WORLD)
    assert str(refused.value).isprintable()


def test_event_that_lacks_something_is_odd():
    for name in ROW.keys() - {"rank", "event"}:
        with pytest.raises(OddAnswer):
            parse_event(json.dumps({k: v for k, v in ROW.items() if k != name}), OWN, WORLD)


def test_event_about_a_rank_that_is_not_there_is_odd():
    pair = {"rank": 2, "event": "pair", **AT_TASK, "to": WORLD, "us": 1.0, "gb_s": 1.0}
    with pytest.raises(OddAnswer, match="a rank that does not exist"):
        parse_event(json.dumps(pair), OWN, WORLD)


def test_wrong_sum_may_be_no_number():
    first = [1, 0, float("nan"), float("-inf")]
    wrong = {k: ROW[k] for k in ("rank", "plane", "task", "group", "dtype", "bytes", "in_place")}
    event = {**wrong, "event": "wrong", "first": first, "of": 4}
    assert parse_event(json.dumps(event), OWN, WORLD) is not None


@given(sampled_from(OF_EACH_KIND), ANYTHING)
def test_no_value_is_an_error_of_ours(event, value):
    """Every field of every kind, one at a time."""
    for name in event:
        line = json.dumps({**event, name: value})
        try:
            parse_event(line, range(1), 4)
        except OddAnswer as error:
            assert str(error).isprintable()  # noqa: PT017 - both ends are right


@pytest.mark.parametrize(
    "head",
    [
        "",
        "x",
        "[]",
        '{"rc": "0", "why": "", "ranks": {}}',
        '{"rc": 0}',
        '{"rc": 0, "why": "", "ranks": {"0": {}}}',
        json.dumps({"rc": 0, "why": "", "ranks": {"7": AT}}),
        json.dumps({"rc": 0, "why": "", "ranks": {"x": AT}}),
        '{"rc": 0, "why": "", "ranks": [], "more": 1}',
        "[" * 100_000,
    ],
)
def test_status_that_no_supervisor_writes_is_odd(head):
    with pytest.raises(OddAnswer):
        parse_status(head, OWN)


def node():
    return NodeRun(directory="/run/x", own=OWN, world=WORLD)


def said(*lines, head='{"rc": 0, "why": "", "ranks": {}}'):
    return Answer(0, "\n".join([head, *lines]), "")


def test_node_that_answers_oddly_is_unknown_and_not_accused():
    ran = accept_runs.healthy()
    odd = node()
    list(odd.take_answer(said(json.dumps({**ROW, "rank": 0}), "")))
    assert odd.is_over
    assert odd.rc is None
    ran.nodes["n1"] = odd
    (found,) = blame.findings(ran)
    assert (found.node, found.proven) == ("n1", False)
    assert GateResult(ran.job.nodes, "gloo", findings=[found], ran=ran).exit_code() == (
        ExitCode.UNKNOWN
    )


def test_node_that_never_stops_talking_is_unknown(monkeypatch):
    monkeypatch.setattr("rdmaprov.acceptance.ranks.run.MOST_OUTPUT_BYTES", 100_000)
    talks = node()
    for _ in range(10):
        list(talks.take_answer(said(*["noise" * 100] * 50, "")))
    assert "print more than" in talks.odd


def test_line_without_an_end_is_not_kept():
    talks = node()
    for _ in range(3):
        list(talks.take_answer(said("x" * (MOST_LINE // 2))))
    assert "a line of its ranks exceeds" in talks.odd


def test_node_that_reports_too_many_events_is_unknown(monkeypatch):
    monkeypatch.setattr("rdmaprov.acceptance.ranks.run.MOST_EVENTS", 10)
    talks = node()
    list(talks.take_answer(said(*[json.dumps(ROW)] * 20, "")))
    assert "report more than 10 events" in talks.odd


def test_event_in_two_pieces_is_whole():
    line = json.dumps(ROW)
    talks = node()
    running = '{"rc": null, "why": "", "ranks": {}}'
    assert list(talks.take_answer(said(line[:20], head=running))) == []
    assert list(talks.take_answer(said(line[20:], "", head=running))) == [ROW]
    assert list(talks.take_answer(said("", head='{"rc": 0, "why": "", "ranks": {}}'))) == []
    assert talks.rc == 0


def test_flight_record_keeps_its_end_and_its_error_is_no_failure():
    assert flight_record(lambda: b"a" * MOST_CHARACTERS + b"end")[-4:] == "aend"
    assert len(flight_record(lambda: "a" * 3 * MOST_CHARACTERS)) == MOST_CHARACTERS
    assert "no flight record" in flight_record(lambda: 1 / 0)


def test_record_is_taken_up_to_its_bound():
    assert MOST_RECORD == MOST_CHARACTERS
    event = {"rank": 0, "event": "flight", "plane": "all rails", "task": 0, "group": 0}
    said = {**event, "text": "\x1b[2J" + "x" * (MOST_RECORD - 4)}
    assert parse_event(json.dumps(said), range(1), 1) == said
    for other in ("x" * (MOST_RECORD + 1), "\ud800", None, 1):
        with pytest.raises(OddAnswer):
            parse_event(json.dumps({**event, "text": other}), range(1), 1)
