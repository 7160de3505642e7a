"""A rolling `rdmaprov apply` with a real Slurm: which nodes it drains, and how it ends."""

import json
from pathlib import Path

import pytest
from tests.cli.namespaced import needs_namespace, rdmaprov
from tests.cli.slurm_place import SLURM, reasons
from tests.cli.test_busy import Node
from tests.tables import cases

from rdmaprov.cli import node_proofs
from rdmaprov.exit_codes import ExitCode
from rdmaprov.scheduler.service import StepOutcome


def apply(place, *words):
    return place.run("apply", "--serial", "1", *words)


def test_node_that_no_role_can_bring_to_its_state_is_not_drained(cluster, place):
    """A machine without rails is no node: the role fabric finds a problem that stays."""
    code, said = apply(place, "--roles", "fabric", "--max-failures", "1", "--json", "out.json")
    assert code == ExitCode.FAILED, said
    assert "2 nodes: 2 failed" in said
    written = json.loads((place.directory / "out.json").read_text())
    assert [each["state"] for each in written["nodes"].values()] == ["failed", "failed"]
    assert reasons(cluster) == ["n1|idle|none", "n2|idle|none"]


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
    assert "2 nodes: 1 unchanged (probed), 1 not started (n2)" in said
    assert "not started\n  n2: left alone: " in said
    assert reasons(cluster) == ["n1|idle|none", f"n2|drained|{reason}"]


STATE = cases(__file__, "state")
OWN = cases(__file__, "own")


@pytest.fixture
def rolled(tmp_path, monkeypatch):
    """Return a node of a scheduler; the suite is never asked."""
    node = Node(tmp_path)
    program = tmp_path / "scheduler"
    program.write_text(STATE.format(place=tmp_path))
    program.chmod(0o755)
    for name in ("n1", "n2"):
        (tmp_path / name).write_text("idle\n")
    variables = tmp_path / "site/group_vars/nodes.yml"
    variables.write_text(variables.read_text() + OWN.format(program=program))
    monkeypatch.setattr(node_proofs, "validate_nodes", lambda *_: StepOutcome())
    return node


def states(node):
    return [(node.directory / name).read_text().strip() for name in ("n1", "n2")]


@needs_namespace
def test_roll_keeps_to_a_plan_and_to_the_policy_of_reboots(rolled):
    code, said = rolled.rdmaprov("plan", "--output", "plan.json")
    assert code == ExitCode.PENDING, said
    code, said = rdmaprov(rolled.directory, "apply", "plan.json", "--serial", "1")
    assert code == ExitCode.PENDING, said
    assert rolled.written.exists()
    assert states(rolled) == ["drained rdmaprov: apply stopped at apply: pending", "idle"]
    assert "reboot required on n1" in said
    (run,) = rolled.directory.glob("runs/*-apply")
    assert json.loads((run / "results.json").read_text())["nodes"]["n1"]["state"] == "changed"


@needs_namespace
def test_node_that_differs_from_the_plan_is_refused_and_back_in_service(rolled):
    rolled.rdmaprov("plan", "--output", "plan.json")
    rolled.has("3")
    code, said = rdmaprov(rolled.directory, "apply", "plan.json", "--serial", "1")
    assert code == ExitCode.FAILED, said
    assert "n1: plan: changed since plan.json: mlx5: " in said
    assert states(rolled) == ["idle", "idle"]
    assert (rolled.directory / "log").read_text() == "drain n1\nresume n1\n"
    assert not rolled.written.exists()
