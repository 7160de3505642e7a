"""A replaced machine: known by its key, drained, proven with a witness, and back in service.

Slurm is a real one on this machine; to it the lab's nodes are names, as it is not on them.
"""

import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest
from tests.cli.certified import make_key, public
from tests.lab.fleet import NODES, Fleet, leftovers_of_accept
from tests.site_runs import WAIT_S, SiteRuns
from tests.unit.helpers.slurm_cluster import running_cluster
from tests.unit.helpers.waiting import until

from rdmaprov.acceptance.ranks.request import LEASE_S, STARTING_S
from rdmaprov.lab import monitor
from rdmaprov.replace.journal import Journal, journal_directory

pytestmark = [pytest.mark.lab, pytest.mark.hours]

STATE = "provisioned"
NODE, WITNESS = "node2", "node1"
SIZES = ("--sizes", "16K:64K")
SLURM = "\nscheduler_kind: slurm\nscheduler_wait_s: 30\n"
# Each of these steps takes an emulated node six seconds or more: now it is in the middle.
AT_WORK_S = 2
REPLACE = ("replace", NODE, "--witnesses", WITNESS, *SIZES, "--wait", str(WAIT_S))


@contextmanager
def scheduled(lab, directory):
    """Provide a site of the test's own, and a Slurm of all nodes that every verb finds."""
    made = Fleet(lab, directory)
    with (made.site / "group_vars/all.yml").open("a") as variables:
        variables.write(SLURM)
    with pytest.MonkeyPatch.context() as patch, running_cluster(tuple(lab.names())) as cluster:
        for name in ("SLURM_CONF", "PATH"):
            patch.setenv(name, cluster.environment[name])
        patch.setenv("PYTEST_ADDOPTS", " ".join(made.patient()))
        yield made, cluster


def accept_signed(fleet, directory):
    """Accept two nodes, which countersign what was measured; the certificate is valid."""
    key = make_key(directory / "operator")
    allowed = directory / "allowed_signers"
    allowed.write_text(f"ops@example.com {public(key)}\n")
    code, said = fleet.run(
        "accept", "--ignore-validate", "--limit", ",".join(NODES), *SIZES, "--sign", str(key)
    )
    assert code == 0, said
    assert "countersigned by 2 of 2 nodes" in said
    [certificate] = fleet.directory.glob("runs/*-accept/certificate.json")
    words = ("certificate", "verify", str(certificate), "--allowed-signers", str(allowed))
    code, said = fleet.execute(*words, "--site", str(fleet.site))
    assert code == 0, said


def service(slurm):
    return slurm.ask("sinfo", "-h", "-N", "-o", "%N|%T|%E").splitlines()


def replace_machine(lab):
    """Put another machine in the node's place; return the new host key's fingerprint.

    Only the console tells the key: here the lab, whose note of it is taken back.
    """
    known = lab.directory / "known_hosts"
    kept = known.read_text()
    lab.must("replace", NODE)
    lines = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(known)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert known.read_text() != kept
    known.write_text(kept)
    return lines[NODES.index(NODE)].split()[1]


def test_replaced_machine_is_drained_proven_and_returned(lab, tmp_path):
    with scheduled(lab, tmp_path) as (fleet, slurm):
        accept_signed(fleet, tmp_path)
        shown = replace_machine(lab)
        replace = ("replace", NODE, "--witnesses", WITNESS, *SIZES)

        code, said = fleet.run(*replace)
        assert code == 4, said
        assert f"host key that it shows:  {shown}" in said
        assert "nothing was sent to it" in said

        lab.must("fault", NODE, "disk-full")
        code, said = fleet.run(*replace, "--host-key", shown)
        assert code == 1, said
        assert f"{NODE}: stopped at apply" in said
        stopped = f"{NODE}|drained|rdmaprov: replace stopped at apply: failed"
        assert service(slurm) == [f"{WITNESS}|idle|none", stopped]

        lab.must("heal", NODE)
        code, said = fleet.run(*replace)
        assert code == 0, said
        assert f"witnesses: {WITNESS}" in said
        assert service(slurm) == [f"{name}|idle|none" for name in NODES]
        assert slurm.ask("srun", "-w", NODE, "echo", "a job") == "a job"
        assert slurm.ask("scontrol", "show", "reservation", "-o").startswith("No reservations")


def test_controller_that_is_killed_in_each_step_leaves_the_reason_and_the_next_run_ends(
    fleet_of_four, tmp_path
):
    """Only the controller is killed, as a lack of memory does: what it started may live on."""
    lab = fleet_of_four.lab
    with scheduled(lab, tmp_path) as (fleet, slurm):
        accept_signed(fleet, tmp_path)
        job = slurm.ask(
            *("sbatch", "--parsable", "--export=NONE", "-w", NODE, "-o", "/dev/null", "--wrap"),
            "sleep 900",
        )
        assert until(lambda: slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING")
        kill_when(fleet, lambda: state_of(slurm) == f"draining|{in_progress(fleet)}", *REPLACE)
        assert slurm.ask("squeue", "-h", "-j", job, "-o", "%T") == "RUNNING"
        slurm.ask("scancel", job)

        for verb in ("apply", "validate", "accept"):
            kill_when(fleet, begun(fleet, verb), *REPLACE)
            assert state_of(slurm) == f"drained|{in_progress(fleet)}", verb

        # What the killed gate started on the nodes ends with its lease.
        assert until(lambda: leftovers_of_accept(lab) == ["", ""], STARTING_S + 2 * LEASE_S)
        code, said = fleet.run(*REPLACE)
        assert code == 0, said
        assert "apply: passed before" in said
        assert "validate: passed before" in said
        assert state_of(slurm) == "idle|none"
        assert slurm.ask("scontrol", "show", "reservation", "-o").startswith("No reservations")
        assert leftovers_of_accept(lab) == ["", ""]
        assert slurm.ask("srun", "-w", NODE, "echo", "a job") == "a job"


def test_connection_that_is_lost_in_each_step_and_a_second_operator(fleet_of_four, tmp_path):
    """The management cable is pulled: nothing tells the controller, not even an end of TCP."""
    lab = fleet_of_four.lab
    with scheduled(lab, tmp_path) as (fleet, slurm):
        accept_signed(fleet, tmp_path)
        code, said = lose_when(lab, fleet, lambda: True)
        assert code == 4, said
        assert state_of(slurm) == "idle|none", said

        for verb in ("apply", "validate", "accept"):
            code, said = lose_when(lab, fleet, begun(fleet, verb))
            assert code in (1, 4), said
            assert f"{NODE}: stopped at {verb}" in said
            assert state_of(slurm).startswith(f"drained|rdmaprov: replace stopped at {verb}: "), (
                said
            )

        # What the gate started on the nodes ends with its lease.
        assert until(lambda: leftovers_of_accept(lab) == ["", ""], STARTING_S + 2 * LEASE_S)
        elsewhere = SiteRuns(tmp_path / "elsewhere", tmp_path / "elsewhere/site")
        shutil.copytree(fleet.site, elsewhere.site)
        first = fleet.start(*REPLACE)
        assert until(begun(fleet, "accept"), fleet.limit_s(2 * WAIT_S))
        code, said = elsewhere.run("replace", NODE, "--witnesses", WITNESS, *SIZES)
        assert code == 4, said
        assert f"{NODE}: another run has it: {in_progress(fleet)}" in said
        assert first.poll() is None
        code, said = fleet.run("replace", NODE, *SIZES)
        assert code == 4, said
        assert "is held by" in said
        assert first.poll() is None
        code, said = fleet.end(first)
        assert code == 0, said
        assert state_of(slurm) == "idle|none"
        assert slurm.ask("scontrol", "show", "reservation", "-o").startswith("No reservations")
        assert leftovers_of_accept(lab) == ["", ""]
        assert slurm.ask("srun", "-w", NODE, "echo", "a job") == "a job"


def in_progress(fleet):
    """Return the reason of a node that a run of this site has."""
    owner = Journal(journal_directory(fleet.site, fleet.directory / "runs"), ()).owner
    return f"rdmaprov: replace in progress on {owner}"


def lose_when(lab, fleet, is_time):
    """Pull the node's management cable at a time; return how the run ended. Then plug it in."""
    process = fleet.start(*REPLACE)
    assert until(lambda: process.poll() is not None or is_time(), fleet.limit_s(2 * WAIT_S))
    plug(lab, is_in=False)
    try:
        code, said = fleet.end(process)
    finally:
        plug(lab, is_in=True)
        lab.disconnect()
    assert until(lambda: lab.call(NODE, "true").returncode == 0, lab.limit_s(WAIT_S))
    return code, said


def plug(lab, *, is_in):
    with monitor.qemu(lab.layout.node(NODE)) as machine:
        machine.ask("set_link", name="mgmt", up=is_in)


def state_of(slurm):
    return slurm.ask("sinfo", "-h", "-N", "-n", NODE, "-o", "%T|%E")


def begun(fleet, verb):
    """Return what tells whether a run of a verb that is not there now is in its middle."""
    before = set(fleet.directory.glob(f"runs/*-{verb}"))
    at: list[float] = []

    def is_at_work():
        if not at and set(fleet.directory.glob(f"runs/*-{verb}")) - before:
            at.append(time.monotonic())
        return at and time.monotonic() - at[0] > AT_WORK_S

    return is_at_work


def kill_when(fleet, is_time, *words):
    process = fleet.start(*words)
    arrived = until(lambda: process.poll() is not None or is_time(), fleet.limit_s(2 * WAIT_S))
    assert process.poll() is None, process.stdout.read()
    process.kill()
    process.wait()
    assert arrived
