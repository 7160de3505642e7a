"""`rdmaprov replace` as a program, with a real Slurm and a real sshd; no node passes here."""

import os
import shutil
import subprocess

import pytest
import yaml
from tests.cli.slurm_place import SLURM, Place, begin_job, reasons
from tests.program import ARGV, start
from tests.unit.helpers.shell import execute
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.ssh_node import Sshd
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode
from rdmaprov.replace.journal import Journal, journal_directory

IN_PROGRESS = "rdmaprov: replace in progress on"


def test_node_whose_apply_fails_stays_drained_with_the_reason(cluster, place):
    """Each apply fails here before its first change: a machine without rails is no node."""
    code, said = place.replace("n1")
    assert code == ExitCode.FAILED, said
    assert "n1: stopped at apply: apply, runs/" in said
    assert "it resumes at apply" in said
    stopped = "n1|drained|rdmaprov: replace stopped at apply: failed"
    assert reasons(cluster) == [stopped, "n2|idle|none"]
    code, said = place.replace("n1")
    assert code == ExitCode.FAILED, said
    assert reasons(cluster) == [stopped, "n2|idle|none"]


def test_job_on_the_node_ends_unharmed_and_nothing_is_applied_before(cluster, place):
    job, running = begin_job(cluster, "n1", 120)
    code, said = place.replace("n1")
    assert code == ExitCode.UNKNOWN, said
    assert f"job {job}; it stays drained" in said
    assert cluster.ask(*running) == "RUNNING"
    assert reasons(cluster)[0] == "n1|draining|rdmaprov: replace stopped at drain: unknown"
    assert not list(place.directory.glob("runs/*-apply"))


def test_killed_while_a_job_runs_it_leaves_the_reason_and_the_next_run_goes_on(
    cluster, place, tmp_path
):
    patient = SLURM.replace("wait_s: 2", "wait_s: 300")
    site = place.directory / "site"
    (site / "group_vars/nodes.yml").write_text(patient)
    elsewhere = Place(tmp_path / "elsewhere", place.environment)
    shutil.copytree(site, elsewhere.directory / "site")
    job, running = begin_job(cluster, "n1", 600)
    killed = subprocess.Popen(
        [*ARGV, "replace", "site", "n1"],
        cwd=place.directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **place.environment},
    )
    reason = f"{IN_PROGRESS} {Journal(journal_directory(site, place.directory / 'runs'), ()).owner}"
    assert until(lambda: reasons(cluster)[0] == f"n1|draining|{reason}", 120)
    code, said = elsewhere.replace("n1")
    assert code == ExitCode.UNKNOWN, said
    assert f"n1: another run has it: {reason}" in said
    killed.kill()
    killed.wait()
    assert reasons(cluster)[0] == f"n1|draining|{reason}"
    assert cluster.ask(*running) == "RUNNING"
    cluster.ask("scancel", job)
    assert until(lambda: reasons(cluster)[0] == f"n1|drained|{reason}")
    code, said = place.replace("n1")
    assert code == ExitCode.FAILED, said
    assert reasons(cluster)[0] == "n1|drained|rdmaprov: replace stopped at apply: failed"


def test_dry_run_says_each_step_and_changes_nothing(cluster, place):
    code, said = place.replace("n1", "--dry-run")
    assert code == ExitCode.FAILED, said  # what plan finds on this machine
    assert "drain: n1: idle: drained, then up to 2.0 s for jobs to end" in said
    assert "proofs: n1: apply, validate, accept" in said
    assert "witnesses: none is known good and idle: it would stop at accept" in said
    assert reasons(cluster) == ["n1|idle|none", "n2|idle|none"]
    assert not list(place.directory.glob("runs/replace-*"))


def test_reason_of_an_administrator_is_left(cluster, place):
    cluster.ask("scontrol", "update", "nodename=n1", "state=drain", "reason=bad board")
    code, said = place.replace("n1")
    assert code == ExitCode.FAILED, said
    assert "(bad board): somebody else's reason, which stays" in said
    assert reasons(cluster)[0] == "n1|drained|bad board"


def test_scheduler_that_is_away_stops_before_apply(cluster, place):
    text = (cluster.place / "slurm.conf").read_text().splitlines()
    away = ["SlurmctldPort=1" if each.startswith("SlurmctldPort=") else each for each in text]
    (place.directory / "slurm.conf").write_text("\n".join([*away, "MessageTimeout=2"]) + "\n")
    place.environment["SLURM_CONF"] = str(place.directory / "slurm.conf")
    code, said = place.replace("n1")
    assert code == ExitCode.UNKNOWN, said
    assert "n1: stopped at drain: scontrol: " in said
    assert "Unable to contact slurm controller" in said
    assert not list(place.directory.glob("runs/*-apply"))


@pytest.fixture
def sshd(tmp_path):
    """Provide an sshd whose node's old key is known, and a file that shows who got a shell."""
    keys = tmp_path / "keys"
    keys.mkdir()
    made = Sshd(keys)
    got_in = tmp_path / "got-in"
    variables = made.variables("n1", f"ForceCommand touch {got_in}", known="other_host_key")
    variables["ansible_ssh_timeout"] = 60
    variables["ansible_control_path"] = f"{tmp_path}/c"  # no connection of another test's
    hosts = {"nodes": {"hosts": {"n1": {"unit": 1, **variables}, "n2": {"unit": 2}}}}
    write(tmp_path / "site", {**GOOD, "hosts.yml": f"---\n{yaml.safe_dump(hosts)}"})
    return Place(tmp_path, {}), keys, got_in


def fingerprint(keys, name):
    said = execute(["ssh-keygen", "-l", "-f", str(keys / f"{name}.pub")], check=True)
    return said.stdout.split()[1]


@pytest.mark.parametrize("allowed", [None, "other_key", "other_host_key"])
def test_changed_host_key_shows_both_and_sends_nothing(sshd, allowed):
    place, keys, got_in = sshd
    words = [] if allowed is None else ["--host-key", fingerprint(keys, allowed)]
    known = (keys / "known_n1").read_text()
    code, said = place.replace("n1", *words)
    assert code == ExitCode.UNKNOWN, said
    assert f"host key that is known: {fingerprint(keys, 'other_host_key')}" in said
    assert f"host key that it shows:  {fingerprint(keys, 'host_key')} (ssh-ed25519)" in said
    assert "nothing was sent to it" in said
    assert (keys / "known_n1").read_text() == known
    assert not got_in.exists()


@pytest.mark.parametrize("by_file", [False, True])
def test_allowed_host_key_replaces_the_old_one(sshd, by_file):
    place, keys, got_in = sshd
    allowed = fingerprint(keys, "host_key")
    if by_file:
        lines = ["# rack 1", f"n1  {allowed}  # as on its console", f"n9={allowed}"]
        (place.directory / "rack").write_text("\n".join(lines))
        allowed = "@rack"
    code, said = place.replace("n1", "--host-key", allowed)
    assert "n1: its new host key is in " in said
    assert code == ExitCode.UNKNOWN  # this sshd runs nothing that reads a node
    assert "n1: stopped at compare: " in said
    public = (keys / "host_key.pub").read_text().split()[:2]
    assert (keys / "known_n1").read_text().split() == ["n1", *public]
    assert got_in.exists(), said
    _, said = place.replace("n1")
    assert "host key that it shows" not in said


def test_site_that_turns_the_check_off_is_refused(sshd):
    place, _, got_in = sshd
    place.environment["ANSIBLE_HOST_KEY_CHECKING"] = "False"
    code, said = place.replace("n1", run=start)
    assert code == ExitCode.UNKNOWN, said
    assert "the site turns off the check of host keys" in said
    assert not got_in.exists()
