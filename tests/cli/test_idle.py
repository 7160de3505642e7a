"""--idle with a real Slurm: busy nodes are left out, and idle ones are held while measured."""

import pytest
from tests.cli.slurm_place import begin_job
from tests.program import call
from tests.tables import cases
from tests.unit.helpers.sites import GOOD, write

from rdmaprov.exit_codes import ExitCode

OWN = cases(__file__, "own")
NAMES = ("n1", "n2", "n3")
HOSTS = cases(__file__, "hosts")


def test_node_with_a_job_is_left_out_and_nothing_stays_reserved(cluster, place):
    begin_job(cluster, "n2", 120)
    code, said = place.run("validate", "--idle", "test_mtu.py")
    assert code == ExitCode.UNKNOWN, said  # no node answers here
    assert "not idle, left out: n2" in said
    assert "2 nodes: 2 unreachable" in said
    code, said = place.run("accept", "--idle", "--ignore-validate", "--stages", "fleet")
    assert "not idle, left out: n2" in said
    assert "preflight: 2 nodes" in said
    assert cluster.ask("scontrol", "-o", "show", "reservation") == "No reservations in the system"
    assert cluster.jobs().count("\n") == 0  # the job runs on


def test_no_idle_node_is_unknown(cluster, place):
    for name in NAMES:
        begin_job(cluster, name, 120)
    for words in (("validate", "--idle"), ("accept", "--idle")):
        code, said = place.run(*words)
        assert code == ExitCode.UNKNOWN, said
        assert "no node is idle" in said


@pytest.mark.parametrize(
    ("variables", "verb", "says"),
    [
        ("scheduler_kind: none", "validate", "--idle needs a scheduler, and the site has none"),
        (OWN, "accept", "needs a scheduler that can reserve nodes"),
    ],
)
def test_scheduler_that_cannot_say_or_reserve_is_wrong_usage(tmp_path, variables, verb, says):
    files = {**GOOD, "hosts.yml": HOSTS, "group_vars/nodes.yml": f"---\n{variables}\n"}
    write(tmp_path / "site", files)
    done = call(verb, "site", "--idle", cwd=tmp_path)
    assert (done.returncode, says in done.stderr) == (ExitCode.USAGE, True), done.stderr
    assert not (tmp_path / "runs").exists()
