"""--idle with a real Slurm: busy nodes are left out, and idle ones are held while measured."""

import pytest
from tests.program import call
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.slurm_cluster import running_cluster
from tests.unit.helpers.waiting import until

from rdmaprov.exit_codes import ExitCode

OWN = """\
scheduler_kind: command
scheduler_state_command: [/bin/echo, idle, "{node}"]
scheduler_drain_command: [/bin/true, "{node}", "{reason}"]
scheduler_resume_command: [/bin/true, "{node}"]"""
NAMES = ("n1", "n2", "n3")
HOSTS = """\
---
nodes:
  hosts: {n1: {unit: 1}, n2: {unit: 2}, n3: {unit: 3}}
  vars: {ansible_host: 127.0.0.1, ansible_port: 1}
"""


@pytest.fixture(scope="module")
def cluster():
    with running_cluster(NAMES) as made:
        yield made


@pytest.fixture
def site(cluster, tmp_path):
    """Return a function that runs a verb on a site whose node n2 has a job."""
    write(
        tmp_path / "site",
        {**GOOD, "hosts.yml": HOSTS, "group_vars/nodes.yml": "---\nscheduler_kind: slurm\n"},
    )
    names = ("SLURM_CONF", "PATH")
    environment = {name: cluster.environment[name] for name in names}

    def run(verb, *words):
        done = call(verb, "site", *words, cwd=tmp_path, **environment)
        return done.returncode, done.stdout + done.stderr

    yield run
    cluster.ask("scancel", "--full", "--state=RUNNING")
    assert until(lambda: cluster.jobs() == "")


def begin_jobs(cluster, *nodes):
    for node in nodes:
        job = cluster.ask(
            *("sbatch", "--parsable", "--export=NONE", "-w", node, "-o", "/dev/null", "--wrap"),
            "sleep 120",
        )
        asked = ("squeue", "-h", "-j", job, "-o", "%T")
        assert until(lambda: cluster.ask(*asked) == "RUNNING")  # noqa: B023 - asked at once


def test_node_with_a_job_is_left_out_and_nothing_stays_reserved(cluster, site):
    begin_jobs(cluster, "n2")
    code, said = site("validate", "--idle", "test_mtu.py")
    assert code == ExitCode.UNKNOWN, said  # no node answers here
    assert "not idle, left out: n2" in said
    assert "2 nodes: 2 unreachable" in said
    code, said = site("accept", "--idle", "--ignore-validate", "--stages", "fleet")
    assert "not idle, left out: n2" in said
    assert "preflight: 2 nodes" in said
    assert cluster.ask("scontrol", "-o", "show", "reservation") == "No reservations in the system"
    assert cluster.jobs().count("\n") == 0  # the job runs on


def test_no_idle_node_is_unknown(cluster, site):
    begin_jobs(cluster, *NAMES)
    for words in (("validate", "--idle"), ("accept", "--idle")):
        code, said = site(*words)
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
