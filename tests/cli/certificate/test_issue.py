"""The certificate of a fleet that passed, as the program and stock tools read it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
from tests.cli.certificate.statements import judge, places, read
from tests.cli.certified import SIZES, make_key, public

from rdmaprov.certificate.statement import OPERATOR
from rdmaprov.finding.finding import exit_code

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/certificate.schema.json").read_text())


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


@pytest.mark.usefixtures("run")
def test_a_host_key_without_its_public_file_countersigns(fleet, capfd):
    """Sshd reads the private file alone, and some images have no other."""
    public = fleet.roots["gpu001"] / "etc/ssh/ssh_host_ed25519_key.pub"
    text = public.read_text()
    public.unlink()
    try:
        made = fleet.accept(*SIZES, "--sign", "operator")
    finally:
        public.write_text(text)
    assert "countersigned by 2 of 2 nodes" in capfd.readouterr().out
    assert judge(made, fleet) == []
    shutil.rmtree(made)


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
    assert (places(found), exit_code(found)) == (["gpu002"], 4)
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


def verify_site(fleet, run):
    words = ["--allowed-signers", str(fleet.allowed), "--site", "site"]
    return fleet.run("certificate", "verify", run / "certificate.json", *words)


@pytest.mark.parametrize(
    ("file", "text", "says", "exits"),
    [
        ("class/dmi/id/product_serial", "SN777777", "serial number was SN000001, is SN777777", 1),
        ("class/infiniband/mlx5_0/fw_ver", "28.44", "rail 0: NIC firmware was 28.43.2026", 4),
    ],
)
def test_what_was_replaced_since_is_named(fleet, run, file, text, says, exits, capfd):
    assert verify_site(fleet, run) == 0
    path = fleet.roots["gpu002"] / "sys" / file
    old = path.read_text()
    try:
        path.write_text(text)
        assert verify_site(fleet, run) == exits
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
        path.write_text(json.dumps({**json.loads(old), "fabric_rack": "r7"}))
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
    said = capfd.readouterr().out
    assert (code, "site: gpu001: its variables" in said, "gpu002" in said) == (1, True, False)


def test_a_node_that_the_certificate_does_not_have_is_unknown(fleet, run, capfd):
    path = fleet.directory / "site/hosts.yml"
    old, own = path.read_text(), fleet.directory / "site/host_vars/gpu001.yml"
    more = fleet.directory / "site/host_vars/gpu009.yml"
    try:
        path.write_text(old.replace('"gpu002"', '"gpu009": null, "gpu002"'))
        more.write_text(re.sub(r"\.\d+/16", ".9/16", own.read_text()))
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
        more.unlink()
    said = capfd.readouterr().out
    assert (code, "unknown: site: gpu009: is a node of the site" in said) == (4, True), said


def test_a_host_key_that_known_hosts_does_not_have_any_more_is_named(fleet, run, capfd):
    path = fleet.directory / "known_hosts"
    old = path.read_text()
    other = public(make_key(run / "other"))
    try:
        kept = [each.rpartition(" ssh-ed25519 ")[0] for each in old.splitlines()]
        path.write_text("".join(f"{each} {other}\n" for each in kept))
        code = verify_site(fleet, run)
    finally:
        path.write_text(old)
    said = capfd.readouterr().out
    assert (code, "countersignature: gpu002: was made with a host key" in said) == (1, True), said
