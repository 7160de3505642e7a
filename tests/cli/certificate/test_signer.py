"""Who signed a certificate, and until when it counts."""

import copy
import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from tests.cli.certificate.statements import countersign, judge, kinds, places, read, rewrite
from tests.cli.certified import make_key, public, put
from tests.tables import cases
from tests.unit.helpers.ssh_node import Sshd

from rdmaprov.acceptance.ask.nodes import connect
from rdmaprov.certificate import notary, ssh_signature
from rdmaprov.certificate.known_hosts import NoHostKey, known_keys
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import (
    NODE,
    OPERATOR,
    canonical,
    make_statement,
    node_text,
    sections,
)
from rdmaprov.certificate.verify import verify
from rdmaprov.cli.certificate_run import as_data
from rdmaprov.finding.finding import exit_code
from rdmaprov.inventory import load_site
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.probe.target import Target


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


@pytest.mark.parametrize(("path", "what"), cases(__file__, "equal"))
def test_one_machine_does_not_stand_for_two(fleet, run, path, what):
    """Also where both nodes and the operator sign it."""
    predicate = read(run)["predicate"]
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


def test_a_key_with_a_passphrase_goes_through_the_agent(tmp_path, monkeypatch):
    key, socket = make_key(tmp_path / "key"), tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", str(key)], check=True)
        subprocess.run(["ssh-keygen", "-q", "-p", "-N", "12345678", "-f", str(key)], check=True)
        signature = ssh_signature.sign(b"x", key, OPERATOR)
        assert ssh_signature.is_by(b"x", signature, OPERATOR, [public(key)])
        assert not ssh_signature.is_by(b"x", signature, NODE, [public(key)])
    finally:
        agent.terminate()
        agent.wait()
    monkeypatch.delenv("SSH_AUTH_SOCK")
    with pytest.raises(NotSigned):
        ssh_signature.sign(b"x", key, OPERATOR)


@pytest.mark.parametrize("hashed", [False, True])
def test_host_keys_are_those_that_ssh_would_accept(tmp_path, hashed):
    key, revoked = (public(make_key(tmp_path / name)) for name in ("key", "revoked"))
    hosts = tmp_path / "hosts"
    hosts.write_text(f"[192.0.2.1]:2222 {key} c\n@revoked [192.0.2.1]:2222 {revoked}\n")
    if hashed:
        subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(hosts)], check=True)
    words = ("ssh", "-F", "none", f"-oUserKnownHostsFile={hosts}", "-oGlobalKnownHostsFile=none")
    argv = (*words, "-oPort=2222", "192.0.2.1")
    assert known_keys(Target("n1", "192.0.2.1", argv, "python3", 10)) == [key]
    with pytest.raises(NoHostKey, match=r"no key of 192\.0\.2\.1"):
        known_keys(Target("n1", "192.0.2.1", (*words, "192.0.2.1"), "python3", 10))


def test_over_ssh_a_node_signs_with_no_other_key_than_the_one_of_its_connection(tmp_path):
    """The node is this machine, behind an sshd whose host key is not in /etc/ssh."""
    variables = {"fabric_kind": "roce", **Sshd(tmp_path).variables("192.0.2.9")}
    lines = [f"      {name}: {json.dumps(value)}\n" for name, value in variables.items()]
    put(tmp_path, "site/hosts.yml", "---\nnodes:\n  hosts:\n    n1:\n" + "".join(lines))
    site = load_site(tmp_path / "site")
    keys = known_keys(Targets().of("n1", site.variables("n1")))
    assert keys == [public(tmp_path / "host_key")]
    described = [{"netdev": "lo", "pci": ""}]
    with connect(site) as connection:
        said = notary.read(connection, {"n1": described})["n1"]
        assert isinstance(said, dict), said
        text = canonical({"own": {"described": described, "identity": said["identity"]}})
        entry = notary.countersign(connection, {"n1": text}, {"n1": keys})["n1"]
        other = text.replace('"netdev":"lo"', '"netdev":"gone"')
        gone = notary.countersign(connection, {"n1": other}, {"n1": keys})["n1"]
    assert entry["signature"] == ""
    assert entry["missing"] == "no host key in /etc/ssh is the one in known_hosts"
    assert gone["missing"].startswith("it differs from the measured node: rail 0")


def test_a_key_of_hostile_text_is_no_key():
    assert not ssh_signature.is_by(b"x", b"", NODE, ["* ssh-ed25519 AAAA\nnode ssh-ed25519 BBBB"])


def test_canonical_text_has_one_form():
    assert canonical({"b": [1.5, "é"], "a": None}) == '{"a":null,"b":[1.5,"\\u00e9"]}'
