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
    """By the nodes, which countersigned what it says; the operator signed each byte of it."""
    statement, signature = read(run), run / "certificate.json.sig"
    signed = signature.read_bytes()
    for number, (path, value) in enumerate(leaves(statement)):
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
        if number % 10 == 0:
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


DEEP = json.loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize("change", [{"waivers": DEEP}, {"notes": ["\ud800"]}])
def test_values_that_break_readers_are_refused(fleet, run, change):
    statement = read(run)
    statement["predicate"].update(change)
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


def edit(path, change):
    """Return what puts another value in the place of one; the path's last key may be of a list."""

    def alter(predicate):
        *way, last = (int(key) if key.lstrip("-").isdigit() else key for key in path.split())
        for key in way:
            predicate = predicate[key]
        predicate[last] = change(predicate[last])

    return alter


TOO_SLOW = {"what": "gpu001 alone", "gb_s": 300.0, "least_gb_s": 400.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (edit("floors 0 floor_gb_s", lambda rate: rate + 10), "is slow"),
        (edit("stages -1 numbers", lambda own: [*own, TOO_SLOW]), "is below the least"),
        (edit("nodes gpu002 ranks 0 median_us", lambda us: us * 2), "slowest rank"),
        (edit("nodes gpu002 ranks", lambda own: [own[0], *own[2:]]), "each rank"),
        (edit("rows 0 busbw_gb_s", lambda rate: rate * 1.01), "as bytes and time make"),
        (
            edit("floors 0", lambda own: own | {"most_gb_s": own["measured_gb_s"] / 2}),
            "is impossible",
        ),
        (
            edit("stages", lambda own: [e for e in own if e["name"] != "fleet"]),
            "lack the stage fleet",
        ),
        (edit("stages -1 state", lambda _: "failed"), "is failed"),
        (edit("floors", lambda _: []), "has a floor"),
    ],
)
def test_verdicts_are_computed_from_the_numbers(run, change, says):
    predicate = read(run)["predicate"]
    assert list(verdict_objections(predicate)) == []
    change(predicate)
    assert says in "; ".join(each.what for each in verdict_objections(predicate))
