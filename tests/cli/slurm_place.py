"""A directory with a site, and the environment of its Slurm."""

import re
import sys
from contextlib import contextmanager

from tests.program import call
from tests.unit.helpers.sites import GOOD, write
from tests.unit.helpers.waiting import until

NAMES = ("n1", "n2")
HOSTS = f"""\
---
nodes:
  hosts: {{n1: {{unit: 1}}, n2: {{unit: 2}}}}
  vars: {{ansible_connection: local, ansible_python_interpreter: {sys.executable}}}
"""
SLURM = "---\nscheduler_kind: slurm\nscheduler_wait_s: 2\n"


class Place:
    def __init__(self, directory, environment):
        self.directory = directory
        self.environment = environment

    def run(self, verb, *words, run=call):
        done = run(verb, "site", *words, cwd=self.directory, **self.environment)
        return done.returncode, done.stdout + done.stderr

    def replace(self, *words, run=call):
        return self.run("replace", *words, run=run)


def reasons(cluster):
    """Return the nodes' states, without the star of one not pinged or an idle one's reason."""
    said = cluster.ask("sinfo", "-h", "-N", "-o", "%N|%T|%E").replace("*|", "|")
    return [re.sub(r"\|idle\|.*", "|idle|none", line) for line in sorted(said.splitlines())]


def begin_job(cluster, node, seconds):
    where = ("-w", node, "-o", "/dev/null", "--wrap", f"sleep {seconds}")
    job = cluster.ask("sbatch", "--parsable", "--export=NONE", *where)
    running = ("squeue", "-h", "-j", job, "-o", "%T")
    assert until(lambda: cluster.ask(*running) == "RUNNING")
    return job, running


@contextmanager
def fresh_place(cluster, directory, hosts=HOSTS):
    """Have a site whose nodes are idle in the cluster, before and after."""
    write(directory / "site", {**GOOD, "hosts.yml": hosts, "group_vars/nodes.yml": SLURM})
    yield Place(directory, {name: cluster.environment[name] for name in ("SLURM_CONF", "PATH")})
    cluster.ask("scancel", "--full", "--state=RUNNING")
    assert until(lambda: cluster.jobs() == "")
    assert cluster.make_idle()
