"""Whose keys sign, and which host key a node may sign with. Keys are ssh-keygen's."""

from __future__ import annotations

import json
import subprocess

import pytest
from tests.cli.certified import make_key, public, put
from tests.unit.helpers.ssh_node import Sshd

from rdmaprov.acceptance.ask.nodes import connect
from rdmaprov.certificate import notary, ssh_signature
from rdmaprov.certificate.known_hosts import NoHostKey, known_keys
from rdmaprov.certificate.ssh_signature import NotSigned
from rdmaprov.certificate.statement import NODE, OPERATOR, canonical
from rdmaprov.inventory import load_site
from rdmaprov.probe.ansible_targets import Targets
from rdmaprov.probe.target import Target


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
