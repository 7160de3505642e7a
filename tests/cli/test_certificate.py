"""The certificate of a fleet that passed: issued by the program, altered, expired, swapped, signed.

Keys are ssh-keygen's. One acceptance of made-up ranks is enough; tests alter copies of it.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import jsonschema
import pytest
from tests.cli.certified import CertifiedFleet, make_key, public, put
from tests.unit.ssh_node import Sshd

from rdmaprov.acceptance.nodes import connect
from rdmaprov.certificate import notary, ssh_signature
from rdmaprov.certificate.known_hosts import NoHostKey, known_keys
from rdmaprov.certificate.objection import exit_code
from rdmaprov.certificate.recompute import verdict_objections
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import (
    NODE,
    OPERATOR,
    as_bytes,
    canonical,
    make_statement,
    node_text,
    sections,
)
from rdmaprov.certificate.verify import verify
from rdmaprov.inventory import load_site
from rdmaprov.probe.target import Target, Targets

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/certificate.schema.json").read_text())
SIZES = ("--sizes", "1G:2G")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    place = tmp_path_factory.mktemp("certified")
    made, before = CertifiedFleet(place), Path.cwd()
    os.chdir(place)
    try:
        made.accept(*SIZES, "--sign", "operator")
        yield made
    finally:
        os.chdir(before)


@pytest.fixture
def run(fleet, tmp_path, monkeypatch):
    """Return a copy of the run's directory, and make the fleet's directory the working one."""
    monkeypatch.chdir(fleet.directory)
    copied = tmp_path / "run"
    shutil.copytree(fleet.newest(), copied)
    return copied


def judge(run, fleet, now=None):
    return verify(run / "certificate.json", fleet.allowed, now or datetime.now(UTC)).objections


def read(run):
    return json.loads((run / "certificate.json").read_text())


def rewrite(run, statement, key=None):
    """Write a certificate; with a key, as its owner would sign it."""
    data = as_bytes(statement)
    (run / "certificate.json").write_bytes(data)
    if key:
        signature = ssh_signature.sign(data, key, OPERATOR)
        (run / "certificate.json.sig").write_bytes(signature)


def countersign(fleet, predicate, name, key=None):
    """Have a node sign what a certificate says of it, with its host key or another one."""
    key = key or fleet.roots[name] / "etc/ssh/ssh_host_ed25519_key"
    text = node_text(predicate, name, sections(predicate))
    signature = ssh_signature.sign(text.encode(), key, NODE).decode()
    entry = {"text": text, "key": public(key), "signature": signature, "missing": ""}
    predicate["countersignatures"][name] = entry


def kinds(objections):
    return {each.kind for each in objections}


def leaves(data, path=()):
    if isinstance(data, (dict, list)):
        pairs = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in pairs:
            yield from leaves(value, (*path, key))
    else:
        yield path, data


def altered(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return value[:-1] + ("a" if value[-1] != "a" else "b") if value else "x"


def test_a_fleet_that_passed_has_a_certificate_that_stock_tools_verify(fleet, run, capfd):
    path = run / "certificate.json"
    assert fleet.run("certificate", "verify", path, "--allowed-signers", fleet.allowed) == 0
    assert "signed by ops@example.com (SHA256:" in capfd.readouterr().out
    words = ["-f", fleet.allowed, "-I", "ops@example.com", "-n", OPERATOR, "-s", f"{path}.sig"]
    done = subprocess.run(["ssh-keygen", "-Y", "verify", *words], input=path.read_bytes())
    assert done.returncode == 0
    predicate = read(run)["predicate"]
    assert list(predicate["nodes"]) == list(fleet.roots)
    own = predicate["nodes"]["gpu002"]["identity"]
    assert own["machine"]["serial"] == "SN000001"
    assert own["rails"][1]["guid"] == "9c63:c003:0001:0001"
    assert own["gpus"][1]["uuid"] == "GPU-00000001-0000-4000-8000-000000000001"
    assert own["versions"]["nvidia"] == "570.86.15"
    assert {log["name"] for log in predicate["logs"]} >= {"results.json", "logs/ranks.jsonl"}


def test_the_schema_describes_it(run):
    statement = read(run)
    jsonschema.validate(statement, SCHEMA)
    for part in (statement, statement["predicate"], statement["predicate"]["nodes"]["gpu001"]):
        part["surprise"] = 1
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(statement, SCHEMA)
        del part["surprise"]


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
            places = [each.where for each in found if each.where]
            assert any(where.startswith(place) for place in places), (where, found)
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
        assert [(each.kind, each.where) for each in found] == [("countersignature", "gpu002")]
        assert exit_code(found) == 1


def test_an_operator_cannot_change_what_a_node_is(fleet, run):
    predicate = read(run)["predicate"]
    predicate["nodes"]["gpu002"]["identity"]["machine"]["serial"] = "SN999999"
    rewrite(run, make_statement(predicate), fleet.operator)
    [found] = judge(run, fleet)
    assert found.where == "predicate/nodes/gpu002/identity/machine/serial"
    assert found.what == 'is "SN999999"; gpu002 countersigned "SN000001"'


def _deep(predicate):
    for _ in range(300):
        predicate["waivers"] = [predicate["waivers"]]


def _surrogate(predicate):
    predicate["notes"] = ["\ud800"]


def _infinite(predicate):
    predicate["waivers"] = [{"rule": 10**400, "reason": "", "nodes": [], "found": ""}]


@pytest.mark.parametrize("change", [_deep, _surrogate, _infinite])
def test_values_that_break_readers_are_refused(fleet, run, change):
    statement = read(run)
    change(statement["predicate"])
    (run / "certificate.json").write_text(json.dumps(statement))
    assert "shape" in kinds(judge(run, fleet))


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
        (_slow, "is slow"), (_below_least, "is below the least"), (_fast_rank, "slowest rank"),
        (_lost_rank, "each rank"), (_fast_row, "as bytes and time make"),
        (_impossible, "is impossible"), (_no_fleet, "lack the stage fleet"),
        (_failed, "is failed"), (_no_floor, "has a floor"),
    ],
)  # fmt: skip
def test_verdicts_are_computed_from_the_numbers(run, change, says):
    predicate = read(run)["predicate"]
    assert list(verdict_objections(predicate)) == []
    change(predicate)
    assert says in "; ".join(each.text for each in verdict_objections(predicate))


def test_a_log_that_was_changed_is_named(fleet, run):
    with (run / "logs/ranks.jsonl").open("a") as file:
        file.write("{}\n")
    [found] = judge(run, fleet)
    assert (found.kind, found.where, found.proven) == ("log", "logs/ranks.jsonl", True)
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


def verify_site(fleet, run):
    words = ["--allowed-signers", str(fleet.allowed), "--site", "site"]
    return fleet.run("certificate", "verify", run / "certificate.json", *words)


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("sys/class/dmi/id/product_serial", "SN777777", "serial number was SN000001, is SN777777"),
        ("sys/class/infiniband/mlx5_1/node_guid", "1:2:3:4", "rail 1: GUID of its NIC was 9c63:"),
        ("sys/class/infiniband/mlx5_0/fw_ver", "28.44.1036", "rail 0: NIC firmware was 28.43.2026"),
        ("sys/module/nvidia/version", "580.1", "NVIDIA driver was 570.86.15, is 580.1"),
    ],
)  # fmt: skip
def test_what_was_replaced_since_is_named(fleet, run, file, text, says, capfd):
    assert verify_site(fleet, run) == 0
    path = fleet.roots["gpu002"] / file
    old = path.read_text()
    try:
        path.write_text(text)
        assert verify_site(fleet, run) == 1
    finally:
        path.write_text(old)
    assert f"replaced: gpu002: {says}" in capfd.readouterr().out.replace("machine's ", "")


def test_a_node_that_gives_no_answer_is_unknown(fleet, run, monkeypatch, capfd):
    monkeypatch.setattr(fleet, "silent", {"gpu001"})
    assert verify_site(fleet, run) == 4
    assert "unknown: replaced: gpu001" in capfd.readouterr().out


def test_a_site_that_was_changed_is_named(fleet, run, capfd):
    path = fleet.directory / "site/host_vars/gpu001.yml"
    old = path.read_text()
    try:
        path.write_text(f"{old}fabric_rack: r7\n")
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
    said = capfd.readouterr().out
    assert (code, "site: gpu001: its variables" in said, "gpu002" in said) == (1, True, False)


@pytest.mark.usefixtures("run")
def test_a_host_key_that_nobody_knows_is_said(fleet, capfd):
    hosts = fleet.directory / "known_hosts"
    old = hosts.read_text()
    try:
        hosts.write_text(old.splitlines(keepends=True)[0])
        made = fleet.accept(*SIZES, "--sign", "operator")
    finally:
        hosts.write_text(old)
    said = capfd.readouterr().out
    assert "countersigned by 1 of 2 nodes" in said
    assert "not countersigned by gpu002: known_hosts has no key of gpu002" in said
    found = judge(made, fleet)
    assert ([each.where for each in found], exit_code(found)) == (["gpu002"], 4)
    shutil.rmtree(made)


@pytest.mark.usefixtures("run")
def test_a_serial_number_with_an_escape_costs_that_node_alone(fleet, monkeypatch, capfd):
    answer = fleet._answer

    def lie(name, command):
        said = answer(name, command)
        if name == "gpu002" and '"identity"' in said.out:
            document = json.loads(said.out)
            document["identity"]["machine"]["serial"] = "\x1b[2J"
            return type(said)(0, json.dumps(document), "")
        return said

    monkeypatch.setattr(fleet, "_answer", lie)
    before = set(fleet.directory.glob("runs/*-accept*"))
    assert fleet.run("accept", "site", "--stages", "fleet", *SIZES) == 4
    said = "".join(capfd.readouterr())
    assert "identity/machine/serial" in said
    assert "\x1b" not in said
    [made] = set(fleet.directory.glob("runs/*-accept*")) - before
    assert not (made / "certificate.json").exists()
    shutil.rmtree(made)


@pytest.mark.usefixtures("run")
def test_a_key_that_cannot_sign_is_refused_before_anything_runs(fleet, tmp_path, capfd):
    key = make_key(tmp_path / "locked", passphrase="long enough")
    before = sorted(fleet.directory.glob("runs/*"))
    assert fleet.run("accept", "site", "--sign", key) == 2
    assert "cannot sign with this key" in capfd.readouterr().err
    assert sorted(fleet.directory.glob("runs/*")) == before


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
    sshd = Sshd(tmp_path)
    variables = {"fabric_kind": "roce", **sshd.variables("192.0.2.9")}
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
    assert gone["missing"].startswith("it is not what was measured: rail 0")


def test_a_key_of_hostile_text_is_no_key():
    assert not ssh_signature.is_by(b"x", b"", NODE, ["* ssh-ed25519 AAAA\nnode ssh-ed25519 BBBB"])


def test_canonical_text_has_one_form():
    assert canonical({"b": [1.5, "é"], "a": None}) == '{"a":null,"b":[1.5,"\\u00e9"]}'
