"""Who signed a certificate, and until when it counts."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.certificate.statements import countersign, judge, kinds, places, read, rewrite
from tests.cli.certified import make_key, public

from rdmaprov.certificate import ssh_signature
from rdmaprov.certificate.statement import NODE, make_statement, node_text, sections
from rdmaprov.certificate.verify import verify
from rdmaprov.cli.certificate_run import as_data
from rdmaprov.finding.finding import exit_code


def placed(found):
    return {(each["kind"], each["where"]) for each in map(as_data, found)}


def test_it_expires(fleet, run):
    later = datetime.now(UTC) + timedelta(days=30, minutes=1)
    assert kinds(judge(run, fleet, later)) == {"expired"}
    assert exit_code(judge(run, fleet, later)) == 4
    assert judge(run, fleet, later - timedelta(days=1)) == []
    early = judge(run, fleet, datetime.now(UTC) - timedelta(days=1))
    assert (kinds(early), exit_code(early)) == ({"expired"}, 4)


def test_a_stranger_s_signature_is_refused(fleet, run, tmp_path):
    rewrite(run, read(run), make_key(tmp_path / "stranger"))
    assert kinds(judge(run, fleet)) == {"signer"}
    assert exit_code(judge(run, fleet)) == 1


def test_a_key_that_is_allowed_for_something_else_is_refused(fleet, run, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text(f'ops@example.com namespaces="git" {public(fleet.operator)}\n')
    found = verify(run / "certificate.json", allowed, datetime.now(UTC)).objections
    assert (kinds(found), exit_code(found)) == ({"signer"}, 1)


def test_a_key_is_tried_under_each_name_that_it_has(fleet, run, tmp_path):
    """Its first one is for something else."""
    allowed = tmp_path / "allowed"
    key = public(fleet.operator)
    names = (("git@example.com", "git"), ("ops@example.com", "rdmaprov-certificate"))
    allowed.write_text("".join(f'{name} namespaces="{own}" {key}\n' for name, own in names))
    found = verify(run / "certificate.json", allowed, datetime.now(UTC))
    assert (found.signer, found.objections) == ("ops@example.com", [])


def test_nodes_sign_which_nodes_there_are(fleet, run):
    """An operator cannot drop one that did not fit."""
    statement = read(run)
    predicate = statement["predicate"]
    for part in ("nodes", "countersignatures"):
        del predicate[part]["gpu002"]
    statement = make_statement(predicate)
    rewrite(run, statement, fleet.operator)
    found = judge(run, fleet)
    assert ("altered", "predicate/nodes") in placed(found)
    assert exit_code(found) == 1


def test_a_certificate_of_nodes_that_did_not_sign_the_list_is_unknown(fleet, run):
    statement = read(run)
    predicate = statement["predicate"]
    shared = {key: own for key, own in sections(predicate).items() if key != "nodes"}
    for name, entry in predicate["countersignatures"].items():
        key = fleet.roots[name] / "etc/ssh/ssh_host_ed25519_key"
        entry["text"] = node_text(predicate, name, shared)
        entry["signature"] = ssh_signature.sign(entry["text"].encode(), key, NODE).decode()
    rewrite(run, statement, fleet.operator)
    found = judge(run, fleet)
    assert (kinds(found), exit_code(found)) == ({"countersignature"}, 4)


@pytest.mark.parametrize(
    ("path", "what"),
    [
        (("host_keys",), "host key"),
        (("identity", "machine", "serial"), "serial number"),
        (("identity", "machine", "uuid"), "UUID"),
        (("identity", "machine", "board_serial"), "mainboard's serial number"),
        (("identity", "rails", 1, "guid"), "GUID of a NIC"),
        (("identity", "gpus", 0, "uuid"), "UUID of a GPU"),
    ],
)
def test_one_machine_does_not_stand_for_two(fleet, run, path, what):
    """Also where both nodes and the operator sign it."""
    statement = read(run)
    predicate = statement["predicate"]
    *way, last = path
    places = []
    for name in ("gpu001", "gpu002"):
        place = predicate["nodes"][name]
        for step in way:
            place = place[step]
        places.append(place)
    both = [*places[0][last], *places[1][last]] if last == "host_keys" else "the-same"
    for place in places:
        place[last] = both
    for name in ("gpu001", "gpu002"):
        countersign(fleet, predicate, name)
    rewrite(run, make_statement(predicate), fleet.operator)
    found = judge(run, fleet)
    assert placed(found) == {("equal", "gpu[001-002]")}
    assert f"the same {what}: " in found[0].what
    assert exit_code(found) == 1


@pytest.mark.parametrize("how", ["no signature", "no allowed signers"])
def test_without_a_known_signer_it_is_unknown(fleet, run, how, capfd):
    words = ["--allowed-signers", str(fleet.allowed)]
    if how == "no signature":
        (run / "certificate.json.sig").unlink()
    else:
        words = []
    assert fleet.run("certificate", "verify", run / "certificate.json", *words) == 4
    assert "unknown: signer" in capfd.readouterr().out


def test_a_truncated_signature_is_refused(fleet, run):
    path = run / "certificate.json.sig"
    path.write_bytes(path.read_bytes()[:100])
    assert kinds(judge(run, fleet)) == {"altered"}


def test_a_countersignature_must_be_there_and_of_the_host_key(fleet, run, tmp_path):
    """Also where an operator signs what no node countersigned."""
    statement, other = read(run), make_key(tmp_path / "other")
    predicate = statement["predicate"]
    taken = copy.deepcopy(statement)
    del taken["predicate"]["countersignatures"]["gpu002"]
    swapped = copy.deepcopy(statement)
    countersign(fleet, swapped["predicate"], "gpu002", other)
    posing = copy.deepcopy(swapped)
    posing["predicate"]["countersignatures"]["gpu002"]["key"] = predicate["nodes"]["gpu002"][
        "host_keys"
    ][0]
    for wrong in (taken, swapped, posing):
        rewrite(run, wrong, fleet.operator)
        found = judge(run, fleet)
        assert (kinds(found), places(found)) == ({"countersignature"}, ["gpu002"])
        assert exit_code(found) == 1
