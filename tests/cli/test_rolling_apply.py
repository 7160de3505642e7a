"""A rolling `rdmaprov apply` with a real Slurm: which nodes it drains, and where it stops."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.slurm_place import NAMES, SLURM, fresh_place, reasons
from tests.program import call
from tests.unit.helpers.slurm_cluster import running_cluster

from rdmaprov.exit_codes import ExitCode


@pytest.fixture(scope="module")
def cluster():
    with running_cluster(NAMES) as made:
        yield made


def apply(place, *words):
    """Return the exit code of a rolling apply, and what was printed."""
    words = ("apply", "site", "--serial", "1", *words)
    done = call(*words, cwd=place.directory, **place.environment)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def place(cluster, tmp_path):
    with fresh_place(cluster, tmp_path) as made:
        yield made


def test_rolling_apply_stops_at_the_first_node_and_leaves_the_rest_in_service(cluster, place):
    """Each apply of the role fabric fails here: a machine without rails is no node."""
    code, said = apply(place, "--roles", "fabric")
    assert code == ExitCode.FAILED, said
    assert "stopped: n1: apply: apply, runs/" in said
    assert "not started, in service: n2" in said
    stopped = "n1|drained|rdmaprov: apply stopped at apply: failed"
    assert reasons(cluster) == [stopped, "n2|idle|none"]


@pytest.mark.parametrize("reason", ["bad board", "rdmaprov: replace stopped at accept: failed"])
def test_rolling_apply_drains_no_node_that_needs_nothing(cluster, place, reason):
    """A node that `replace` drained is left to it, which also measures what it returns."""
    if Path("/etc/sysctl.d/99-z-rdmaprov-limits.conf").exists():
        pytest.skip("this machine is a node")
    nothing = "limits_memlock_users: []\nlimits_memlock_services: []\n"
    (place.directory / "site/group_vars/nodes.yml").write_text(SLURM + nothing)
    cluster.ask("scontrol", "update", "nodename=n2", "state=drain", f"reason={reason}")
    code, said = apply(place, "--roles", "limits")
    assert code == ExitCode.UNKNOWN, said
    assert "1 node: nothing to do" in said
    assert "n2: left alone: " in said
    assert reasons(cluster) == ["n1|idle|none", f"n2|drained|{reason}"]


def test_rolling_apply_refuses_what_it_does_not_have(cluster, place):
    assert cluster
    code, said = apply(place, "--max-failures", "1")
    assert (code, "--max-failures and --serial exclude each other" in said) == (2, True), said
