"""A replaced machine: known by its key, drained, proven with a witness, and back in service.

Slurm is a real one on this machine; to it the lab's nodes are names, as it is not on them.
"""

from __future__ import annotations

import os
import subprocess

import pytest
from tests.lab.fleet import NODES, PATIENT, Fleet
from tests.unit.slurm_cluster import running_cluster

pytestmark = [pytest.mark.lab, pytest.mark.long]

STATE = "provisioned"
NODE, WITNESS = "node2", "node1"
SIZES = ("--sizes", "16K:64K")
SLURM = "\nscheduler_kind: slurm\nscheduler_wait_s: 30\n"


@pytest.fixture
def slurm(monkeypatch):
    """Provide a Slurm that has the lab's nodes, as every verb finds it."""
    with running_cluster(NODES) as cluster:
        for name in ("SLURM_CONF", "PATH"):
            value = cluster.environment[name]
            monkeypatch.setenv(name, f"{os.environ[name]}:{value}" if name == "PATH" else value)
        yield cluster


@pytest.fixture
def fleet(lab, tmp_path, monkeypatch):
    """Provide a site of the test's own, whose nodes Slurm schedules."""
    made = Fleet(lab, tmp_path)
    with (made.site / "group_vars/all.yml").open("a") as variables:
        variables.write(SLURM)
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(PATIENT))
    return made


def service(slurm, node=NODE):
    """Return a node's state in Slurm, and the reason."""
    return slurm.ask("sinfo", "-h", "-n", node, "-o", "%T|%E")


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


def test_replaced_machine_is_drained_proven_and_returned(lab, fleet, slurm):
    code, said = fleet.run("accept", *SIZES)
    assert fleet.results()["nodes"][WITNESS]["findings"] == 0, said
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
    assert service(slurm) == "drained|rdmaprov: replace stopped at apply: failed"

    lab.must("heal", NODE)
    code, said = fleet.run(*replace)
    assert code == 0, said
    assert f"witnesses: {WITNESS}" in said
    assert service(slurm) == "idle|none"
    assert slurm.ask("srun", "-w", NODE, "echo", "a job") == "a job"
    assert slurm.ask("scontrol", "show", "reservation", "-o").startswith("No reservations")
