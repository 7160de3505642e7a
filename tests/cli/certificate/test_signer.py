"""Who signed a certificate, and until when it counts."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.certificate.statements import (
    countersign,
    judge,
    kinds,
    places,
    read,
    rewrite,
)
from tests.cli.certified import make_key, public

from rdmaprov.certificate.verify import verify
from rdmaprov.finding.finding import exit_code


def test_it_expires(fleet, run):
    later = datetime.now(UTC) + timedelta(days=30, minutes=1)
    assert kinds(judge(run, fleet, later)) == {"expired"}
    assert exit_code(judge(run, fleet, later)) == 1
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
