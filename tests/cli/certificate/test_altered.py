"""Certificates that were altered, cut, or written to break their reader."""

import copy
import json
import os
import shutil

import pytest
from tests.cli.certificate.statements import altered, judge, kinds, leaves, places, read, rewrite

from rdmaprov.certificate.recompute import verdict_objections
from rdmaprov.certificate.statement import make_statement
from rdmaprov.errors import UsageError
from rdmaprov.finding.finding import exit_code


def test_every_altered_field_is_refused_and_its_place_is_named(fleet, run):
    """Without the operator's signature too: nodes countersigned what it says."""
    statement, signature = read(run), run / "certificate.json.sig"
    signed = signature.read_bytes()
    for path, value in list(leaves(statement)):
        wrong = copy.deepcopy(statement)
        parent = wrong
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = altered(value)
        rewrite(run, wrong)
        signature.unlink(missing_ok=True)
        where = "/".join(map(str, path))
        found = [each for each in judge(run, fleet) if each.proven]
        if path[1:2] != ("countersignatures",):
            named = filter(None, places(found))
            assert any(where.startswith(place) for place in named), (where, found)
        elif path[-1] != "missing":
            assert found, where
        signature.write_bytes(signed)
        assert exit_code(judge(run, fleet)) == 1, where


def test_a_field_that_is_added_or_taken_is_refused(fleet, run):
    statement = read(run)
    for change in (
        lambda it: it["predicate"].update(more=1),
        lambda it: it["predicate"].pop("floors"),
        lambda it: it["predicate"]["nodes"].pop("gpu002"),
        lambda it: it["subject"].reverse(),
    ):
        wrong = copy.deepcopy(statement)
        change(wrong)
        rewrite(run, wrong, fleet.operator)
        assert exit_code(judge(run, fleet)) == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (lambda data: data[: len(data) // 2], "truncated"),
        (lambda _data: b"", "truncated"),
        (lambda _data: b"\xff\xfe", "UTF-8"),
        (lambda _data: b"[" * 100_000, "truncated"),
        (lambda _data: b'{"verdict": "accepted"}', "no in-toto statement"),
        (lambda data: data.replace(b'"_type"', b'"_type": 1, "_type"', 1), "key twice"),
    ],
)
def test_what_is_no_certificate_is_a_usage_error(fleet, run, content, says, capfd):
    path = run / "certificate.json"
    path.write_bytes(content(path.read_bytes()))
    assert fleet.run("certificate", "verify", path) == 2
    said = capfd.readouterr().err
    assert says in said
    assert "hint:" in said


@pytest.mark.parametrize("name", ["certificate.json", "certificate.json.sig"])
def test_a_pipe_is_not_waited_for(fleet, run, name, capfd):
    (run / name).unlink()
    os.mkfifo(run / name)
    assert fleet.run("certificate", "verify", run / "certificate.json") == 2
    assert "it is no file" in capfd.readouterr().err


def test_an_operator_cannot_change_what_a_node_is(fleet, run):
    predicate = read(run)["predicate"]
    predicate["nodes"]["gpu002"]["identity"]["machine"]["serial"] = "SN999999"
    rewrite(run, make_statement(predicate), fleet.operator)
    [found] = judge(run, fleet)
    assert found.part == "predicate/nodes/gpu002/identity/machine/serial"
    assert found.what == 'is "SN999999"; gpu002 countersigned "SN000001"'


def _deep(predicate):
    for _ in range(300):
        predicate["waivers"] = [predicate["waivers"]]


def _surrogate(predicate):
    predicate["notes"] = ["\ud800"]


@pytest.mark.parametrize("change", [_deep, _surrogate])
def test_values_that_break_readers_are_refused(fleet, run, change):
    statement = read(run)
    change(statement["predicate"])
    (run / "certificate.json").write_text(json.dumps(statement))
    assert "shape" in kinds(judge(run, fleet))


def test_number_without_end_is_no_certificate(fleet, run):
    statement = read(run)
    statement["predicate"]["waivers"] = [{"rule": 10**400, "reason": "", "nodes": [], "found": ""}]
    (run / "certificate.json").write_text(json.dumps(statement))
    with pytest.raises(UsageError, match="number of 401 characters"):
        judge(run, fleet)


def test_a_log_that_was_changed_is_named(fleet, run):
    with (run / "logs/ranks.jsonl").open("a") as file:
        file.write("{}\n")
    [found] = judge(run, fleet)
    assert (found.kind, found.part, found.proven) == ("certificate.log", "logs/ranks.jsonl", True)
    shutil.rmtree(run / "logs")  # a certificate can go elsewhere without its logs
    assert judge(run, fleet) == []


def test_no_terminal_obeys_a_certificate(fleet, run, capfd):
    statement = read(run)
    statement["predicate"]["notes"].append("\x1b[2J\u202e")
    statement["predicate"]["nodes"]["gpu001"]["identity"]["machine"]["serial"] = "\x1b]0;x\x07"
    rewrite(run, statement, fleet.operator)
    assert fleet.run("certificate", "verify", run / "certificate.json") == 1
    said = "".join(capfd.readouterr())
    assert "shape: predicate/" in said
    assert said.replace("\n", "").isprintable()


def test_json_has_the_verdict_and_each_objection(fleet, run, capfd):
    assert fleet.run("certificate", "verify", run / "certificate.json", "--json") == 4
    document = json.loads(capfd.readouterr().out)
    assert (document["verdict"], document["exit_code"]) == ("unknown", 4)
    assert document["nodes"] == list(fleet.roots)
    assert [each["kind"] for each in document["objections"]] == ["signer"]


def _slow(predicate):
    predicate["floors"][0]["floor_gb_s"] += 10


def _below_least(predicate):
    number = {"what": "gpu001 alone", "gb_s": 300.0, "least_gb_s": 400.0}
    predicate["stages"][-1]["numbers"].append(number)


def _fast_rank(predicate):
    predicate["nodes"]["gpu002"]["ranks"][0]["median_us"] *= 2


def _lost_rank(predicate):
    del predicate["nodes"]["gpu002"]["ranks"][1]


def _fast_row(predicate):
    predicate["rows"][0]["busbw_gb_s"] *= 1.01


def _impossible(predicate):
    predicate["floors"][0]["most_gb_s"] = predicate["floors"][0]["measured_gb_s"] / 2


def _no_fleet(predicate):
    predicate["stages"] = [each for each in predicate["stages"] if each["name"] != "fleet"]


def _failed(predicate):
    predicate["stages"][-1]["state"] = "failed"


def _no_floor(predicate):
    predicate["floors"] = []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_slow, "is slow"),
        (_below_least, "is below the least"),
        (_fast_rank, "slowest rank"),
        (_lost_rank, "each rank"),
        (_fast_row, "as bytes and time make"),
        (_impossible, "is impossible"),
        (_no_fleet, "lack the stage fleet"),
        (_failed, "is failed"),
        (_no_floor, "has a floor"),
    ],
)
def test_verdicts_are_computed_from_the_numbers(run, change, says):
    predicate = read(run)["predicate"]
    assert list(verdict_objections(predicate)) == []
    change(predicate)
    assert says in "; ".join(each.what for each in verdict_objections(predicate))
