"""Journals, witnesses, host keys and the guide's script for Kubernetes."""

import json
import os
import re
import shlex
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.scheduler.test_scheduler_service import IDLE

from rdmaprov.cli.replace_work import choose_witnesses, known_good, parse_witnesses
from rdmaprov.errors import UsageError
from rdmaprov.inventory import load_site
from rdmaprov.probe.target import Target
from rdmaprov.replace import hardware, host_key
from rdmaprov.replace.host_key import HostKey, HostKeyError
from rdmaprov.replace.journal import KEPT_S, Journal, identity_of
from rdmaprov.replace.steps import PROOFS
from rdmaprov.scheduler.own_programs import OwnPrograms
from rdmaprov.scheduler.service import give_back, take_out

GUIDE = Path(__file__).parents[3] / "docs/replaced-node.md"


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / "runs/replace", PROOFS, lambda: 1000.0)


def prove(journal, *steps):
    for step in steps:
        journal.keep("n1", step)


def test_proofs_are_kept_in_order_and_an_earlier_step_drops_later_ones(journal):
    journal.bind("n1", "a")
    prove(journal, *PROOFS)
    assert Journal(journal.directory, PROOFS, lambda: 1000.0).is_proven("n1")
    journal.begin("n1", "validate")
    assert [journal.has("n1", step) for step in PROOFS] == [True, False, False]
    journal.keep("n1", "accept")
    assert not journal.is_proven("n1")  # validate is missing before it


@pytest.mark.parametrize("later", [KEPT_S, -1.0])
def test_proof_of_another_time_counts_no_more(journal, later):
    journal.bind("n1", "a")
    prove(journal, *PROOFS)
    assert not Journal(journal.directory, PROOFS, lambda: 1000.0 + later).is_proven("n1")


def test_proofs_of_another_machine_or_site_are_dropped(journal):
    one = identity_of({"fabric_kind": "roce"}, "SHA256:a")
    journal.bind("n1", one)
    prove(journal, *PROOFS)
    journal.bind("n1", one)
    assert journal.is_proven("n1")
    journal.bind("n1", identity_of({"fabric_kind": "roce"}, "SHA256:b"))
    assert not journal.has("n1", "apply")
    assert identity_of({"fabric_kind": "infiniband"}, "SHA256:a") != one


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "passed": {"apply": "x"}}']
)
def test_damaged_journal_proves_nothing(journal, text):
    journal.directory.mkdir(parents=True)
    (journal.directory / "n1.json").write_text(text)
    assert not journal.has("n1", "apply")
    prove(journal, *PROOFS)
    assert journal.is_proven("n1")


@pytest.fixture
def site(tmp_path):
    hosts = "".join(f"    n{i}: {{unit: {i}, fabric_leaf: leaf{i % 2}}}\n" for i in range(1, 7))
    return write(tmp_path / "site", {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"})


def run_of(site, name, code, nodes):
    path = site.parent / "runs" / name / "results.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"schema": 1, "site": str(site), "exit_code": code, "nodes": nodes}))


def test_known_good_is_who_the_last_gate_and_validate_found_nothing_against(site):
    found = {name: {"findings": 0} for name in ("n1", "n2", "n3", "n4")}
    run_of(site, "20261101-120000-accept", 0, found)
    run_of(site, "20261102-120000-accept", 1, {"n1": {"findings": 0}, "n2": {"findings": 1}})
    run_of(site, "20261103-120000-accept", 4, {"n3": {"findings": 0}})
    whole = {name: {"state": "passed", "complete": True} for name in ("n1", "n2", "n3", "n4")}
    run_of(site, "20261103-180000-validate", 0, whole)
    run_of(site, "20261104-120000-validate", 1, {"n4": {"state": "failed"}})
    names = [f"n{i}" for i in range(1, 7)]
    assert known_good(site, names, site.parent / "runs") == {"n1"}
    assert known_good(site.parent / "other", names, site.parent / "runs") == set()


def test_witnesses_are_idle_two_of_the_own_leaf_and_few_of_many_leaves(site):
    *nodes, last = load_site(site).nodes
    status = {node.name: replace(IDLE, node=node.name) for node in nodes}
    assert choose_witnesses(nodes, status, None, [last]) == ["n2", "n4", "n1", "n3"]
    assert choose_witnesses(nodes, status, 3, [last]) == ["n2", "n4", "n1"]
    assert choose_witnesses(nodes, status, 9, [last]) == ["n2", "n4", "n1", "n3", "n5"]
    status["n2"] = replace(IDLE, node="n2", idle=False, busy=True)
    assert choose_witnesses(nodes, status, None, [last]) == ["n4", "n1", "n3", "n5"]
    none = {name: replace(each, idle=False) for name, each in status.items()}
    assert choose_witnesses(nodes, none, None, [last]) == []


RAIL = cases(__file__, "rail")
FACTS = {
    "rails": [RAIL],
    "gpus": [{"pci": "0000:1a:00.0"}],
    "memory_bytes": 2 << 40,
    "numa_nodes": 2,
    "kernel": "6.1.0-18-amd64",
}


def test_machines_are_compared_part_by_part(tmp_path):
    assert hardware.kept(tmp_path, "n1") == {}
    hardware.keep(tmp_path, "n1", FACTS, "RMA 4711")
    assert '"ticket": "RMA 4711"' in (tmp_path / "n1.machine.json").read_text()
    old = hardware.kept(tmp_path, "n1")
    assert list(hardware.changes(old, hardware.describe(FACTS))) == []
    new = {**FACTS, "rails": [{**RAIL, "firmware": "28.40.1000"}], "gpus": []}
    found = list(hardware.changes(old, hardware.describe(new)))
    assert found[0].startswith("mlx5_0: PCI 0000:18:00.0, netdev ens1, ")
    assert "firmware 28.39.1002, " in found[0].partition(" → ")[0]
    assert found[1] == "GPUs: 1 at 0000:1a:00.0 → none"


def target_of(sshd, known, *settings):
    words = shlex.split(sshd.variables("n1", *settings, known=known)["ansible_ssh_common_args"])
    return Target("n1", "n1", ("ssh", "-T", *words, "n1"), "python3", 60)


def is_known(target):
    key = host_key.look(target)
    return key is not None and key.is_known


def test_key_that_a_certificate_authority_signed_is_known(tmp_path):
    sshd = Sshd(tmp_path)
    keys = ("-s", tmp_path / "other_key", tmp_path / "host_key.pub")
    subprocess.run(["ssh-keygen", "-q", "-I", "n1", "-h", "-n", "n1", *keys], check=True)
    target = target_of(sshd, "", f"HostCertificate {tmp_path}/host_key-cert.pub")
    assert not is_known(target)
    authority = (tmp_path / "other_key.pub").read_text()
    (tmp_path / "known_n1").write_text(f"@cert-authority n1 {authority}")
    assert is_known(target)


def test_key_that_changes_after_it_was_allowed_is_not_learnt(tmp_path):
    target = target_of(Sshd(tmp_path), "other_host_key")
    before = (tmp_path / "known_n1").read_text()
    allowed = HostKey("ssh-ed25519", f"SHA256:{'a' * 43}", is_known=False)
    with pytest.raises(HostKeyError, match="it shows another host key now"):
        host_key.learn(target, allowed)
    assert (tmp_path / "known_n1").read_text() == before


@pytest.mark.parametrize("relays", [[], ["r1"], ["gone", "r1"], ["gone"]])
def test_allowed_key_is_learnt_by_the_ssh_that_goes_to_the_node(tmp_path, monkeypatch, relays):
    (tmp_path / "own").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "own"))
    run = ("/bin/sh", "-c", f'echo "$0" >>{tmp_path}/ran; eval "$0"')
    by = (Target(name, "", run if name == "r1" else ("false",), "python3", 10) for name in relays)
    target = replace(target_of(Sshd(tmp_path), "other_host_key"), relays=tuple(by))
    if relays == ["gone"]:
        with pytest.raises(HostKeyError, match="its relay gone is unreachable"):
            host_key.look(target)
        return
    key = host_key.look(target)
    assert key is not None
    assert not key.is_known
    known = tmp_path / "known_n1"
    assert host_key.learn(target, key) == f"{'r1:' if relays else ''}{known}"
    assert known.read_text().split() == ["n1", *(tmp_path / "host_key.pub").read_text().split()[:2]]
    assert is_known(target)
    assert not [*(tmp_path / "own").iterdir()]
    assert (tmp_path / "ran").exists() == bool(relays)


def test_this_machine_itself_has_no_host_key_to_verify():
    assert host_key.look(Target("n1", "", ("/bin/sh", "-c"), "python3", 10)) is None


def test_witness_list_of_a_user_is_names_or_a_number():
    assert parse_witnesses("") == ((), None)
    assert parse_witnesses("4") == ((), 4)
    assert parse_witnesses("n1,n2 n1") == (("n1", "n2"), None)
    with pytest.raises(UsageError):
        parse_witnesses("-1")


# Keeps what kubectl is asked to change in files; says one job while the file `job` is there.
KUBECTL = cases(__file__, "kubectl")


def test_guide_s_script_for_kubernetes_drains_waits_and_returns(tmp_path, monkeypatch):
    (script,) = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    for name, text in (("k8s-node", script), ("kubectl", KUBECTL.format(place=tmp_path))):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    own = OwnPrograms(
        ("k8s-node", "state", "{node}"),
        ("k8s-node", "drain", "{node}", "{reason}"),
        ("k8s-node", "resume", "{node}"),
    )
    assert own.status(["n1"])["n1"].idle
    (tmp_path / "job").write_text("pod/train-0\n")
    assert own.status(["n1"])["n1"].word == "busy"
    assert "still in use" in take_out(own, ["n1"], "replace n1 in progress", wait_s=0)["n1"].text
    (tmp_path / "job").unlink()
    assert take_out(own, ["n1"], "replace n1 in progress", wait_s=0)["n1"].is_ok
    assert own.status(["n1"])["n1"].reason == "rdmaprov: replace n1 in progress"
    assert "--pod-selector !job-name" in (tmp_path / "drains").read_text()
    assert give_back(own, "n1", drained_by_us=True).is_ok
    assert own.status(["n1"])["n1"].idle
