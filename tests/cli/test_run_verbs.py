"""`plan` and `apply` as programs, on nodes that cannot be reached: nothing is changed here."""

import json
import os
import re
import signal
import socket
import stat
import subprocess

import pytest
from tests.lab.handle import processes_with
from tests.program import ARGV, call, encrypt_variable, start
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.stage_report import STAGES

HIDDEN = "127.0.0.1"
CLOSED = "    ansible_port: 1\n    ansible_ssh_timeout: 5\n"


@pytest.fixture
def site(tmp_path):
    hosts = f"---\nnodes:\n  hosts:\n    n1: {{unit: 1}}\n    n2: {{unit: 2}}\n  vars:\n{CLOSED}"
    return write(tmp_path / "site", {**GOOD, "hosts.yml": f"{hosts}    ansible_host: {HIDDEN}\n"})


def argv(*words):
    return [*ARGV, *words]


def rdmaprov(site, *words):
    return call(*words, cwd=site.parent)


def runs(site):
    return sorted((site.parent / "runs").glob("*"))


def results(site):
    return json.loads((runs(site)[-1] / "results.json").read_text())


def test_nodes_that_cannot_be_reached_are_not_known(site):
    done = rdmaprov(site, "plan", "site", "--json", "-")
    assert done.returncode == 4
    said = json.loads(done.stdout)
    assert said == results(site)
    assert (said["schema"], said["exit_code"]) == (1, 4)
    assert {node["state"] for node in said["nodes"].values()} == {"unreachable"}
    assert "  2 nodes: " in done.stderr
    assert "connection refused" in said["nodes"]["n1"]["problems"][0]


def test_run_is_kept_for_its_user_only(site):
    assert rdmaprov(site, "plan", "site", "--limit", "n1").returncode == 4
    (run,) = runs(site)
    assert run.name.endswith("-plan")
    assert list(results(site)["nodes"]) == ["n1"]
    assert "n1" in (run / "logs" / "ansible.log").read_text()
    for path in (run.parent, run, *run.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


@pytest.fixture
def vaulted(site):
    """Provide the site with the nodes' address vaulted, which ends up in what ssh says."""
    (site.parent / "vault.pass").write_text("correct horse")
    encrypted = encrypt_variable("ansible_host", HIDDEN, site.parent / "vault.pass")
    hosts = f"---\nnodes:\n  hosts:\n    n1: {{unit: 1}}\n    n2: {{unit: 2}}\n  vars:\n{CLOSED}"
    write(site, {"hosts.yml": hosts, "group_vars/nodes.yml": f"---\n{encrypted}"})
    return site


@pytest.mark.parametrize("verb", [pytest.param("plan", marks=pytest.mark.long), "apply"])
def test_vaulted_value_is_nowhere(vaulted, verb):
    done = rdmaprov(vaulted, verb, "site", "--vault-password-file", "vault.pass")
    assert done.returncode == 4, done.stdout + done.stderr
    paths = (vaulted.parent / "runs").rglob("*")
    files = {path: path.read_text() for path in paths if path.is_file()}
    assert {path.name for path in files} == {"ansible.log", "results.json", "report.html"}
    for text in (done.stdout, done.stderr, *files.values()):
        assert HIDDEN not in text
    assert all("********" in text for text in files.values())
    assert "********" in done.stdout


def test_vault_is_opened_as_by_ansible(vaulted):
    (vaulted.parent / "ansible.cfg").write_text("[defaults]\nvault_password_file = vault.pass\n")
    vaulted.parent.chmod(0o700)  # Ansible leaves an ansible.cfg alone that others can write
    assert start("plan", "site", cwd=vaulted.parent).returncode == 4
    (vaulted.parent / "ansible.cfg").unlink()
    assert rdmaprov(vaulted, "plan", "site").returncode == 3
    given = {"ANSIBLE_VAULT_PASSWORD_FILE": "vault.pass"}
    assert start("check", "site", cwd=vaulted.parent, **given).returncode == 0
    assert rdmaprov(vaulted, "check", "site", "--vault-password-file", "vault.pass").returncode == 0


def test_run_that_is_refused_leaves_no_directory(site):
    done = rdmaprov(site, "accept", "site", "--limit", "n1")
    assert (done.returncode, "accept needs two nodes" in done.stderr) == (2, True)
    assert runs(site) == []


def test_ansible_that_fails_by_itself_says_why(site):
    done = start("plan", "site", cwd=site.parent, ANSIBLE_STRATEGY="no_such_strategy")
    assert done.returncode == 4
    assert "Ansible failed with exit code" in done.stderr
    assert "no_such_strategy" in done.stderr
    assert done.stdout.endswith(f"report: runs/{runs(site)[-1].name}/report.html\n")
    assert {node["state"] for node in results(site)["nodes"].values()} == {"not_begun"}


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(n, marks=pytest.mark.long) for n in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_interrupt_leaves_results_and_no_process(site, number):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = (site / "hosts.yml").read_text().replace("ansible_ssh_timeout: 5", "")
        port = silent.getsockname()[1]
        (site / "hosts.yml").write_text(hosts.replace("ansible_port: 1", f"ansible_port: {port}"))
        process = subprocess.Popen(
            argv("apply", "site"),
            cwd=site.parent,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "ANSIBLE_SSH_TIMEOUT": "100", "TMPDIR": str(site.parent)},
        )
        with silent.accept()[0]:  # so ssh runs, and waits for an answer
            process.send_signal(number)
            said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "not started\n  2 nodes\n" in said
    assert results(site)["interrupted"] is True
    assert {node["state"] for node in results(site)["nodes"].values()} == {"not_begun"}
    assert processes_with(str(site.parent)) == []
    assert list(site.parent.glob("rdmaprov-*")) == []


@pytest.mark.parametrize(
    "words", [["accept", "--ignore-validate"], ["apply", "--yes"], ["replace", "n1"], ["tune"]]
)
def test_duration_is_said_before_the_start_if_earlier_runs_tell_it(site, words):
    verb, *more = words
    if verb == "tune":
        assert "expected to take" not in rdmaprov(site, verb, "site", *more).stdout
    stages = [{"name": stage, "state": "passed", "seconds": 20.0} for stage in STAGES]
    data = {"schema": 1, "exit_code": 0, "site": "site", "seconds": 200.0, "stages": stages}
    for place, kept in enumerate(("accept", "apply", "tune", "validate")):
        run = site.parent / f"runs/20261101-00000{place}-{kept}"
        run.mkdir(parents=True)
        of_nodes = {"verb": kept, "nodes": {"n1": {}, "n2": {}}}
        (run / "results.json").write_text(json.dumps(data | of_nodes))
    first, *_ = rdmaprov(site, verb, "site", *more).stdout.splitlines()
    assert re.fullmatch(r"expected to take \d+ to \d+ min \(1 earlier run\)", first)
