"""Ansible is made fast, and the user's own settings stay."""

import json
import os
import sys

import pytest
from tests.tables import cases
from tests.unit.helpers.shell import execute

from rdmaprov import tuning

pytestmark = pytest.mark.program  # Ansible is read anew for each environment

SHOW = cases(__file__, "show")


def environment(directory, **variables):
    own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    given = {**own, "HOME": str(directory), **variables}
    argv = [sys.executable, "-c", SHOW % str(directory)]
    done = execute(argv, cwd=directory, env=given, check=True)
    return json.loads(done.stdout)


def test_defaults_are_replaced(tmp_path):
    chosen = environment(tmp_path)
    assert chosen["ANSIBLE_PIPELINING"] == "True"
    assert "ControlPersist=600s" in chosen["ANSIBLE_SSH_ARGS"]
    assert int(chosen["ANSIBLE_FORKS"]) <= 3
    assert environment(tmp_path, RDMAPROV_CONNECTIONS="1")["ANSIBLE_FORKS"] == "1"
    assert int(chosen["ANSIBLE_TASK_TIMEOUT"]) > 3 * 3600


@pytest.mark.parametrize(("name", "value"), cases(__file__, "what_the_environment_says_stays"))
def test_what_the_environment_says_stays(tmp_path, name, value):
    assert name not in environment(tmp_path, **{name: value})


def test_what_ansible_cfg_says_stays(tmp_path):
    tmp_path.chmod(0o700)  # Ansible leaves an ansible.cfg alone that others can write
    (tmp_path / "ansible.cfg").write_text(
        "[defaults]\nforks = 5\ntask_timeout = 60\n"
        "[ssh_connection]\npipelining = false\nssh_args = -v\nssh_executable = ssh\n"
    )
    # A short home: in a long one, control sockets would get another place as well.
    assert environment(tmp_path, HOME="/") == {}


def test_control_sockets_get_names_that_fit(tmp_path):
    home = tmp_path / ("x" * 100)
    home.mkdir(mode=0o700)
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path)}
    chosen = environment(tmp_path, HOME=str(home), **runtime)
    assert chosen["ANSIBLE_SSH_CONTROL_PATH_DIR"] == str(tmp_path / "rdmaprov-cp")
    assert (tmp_path / "rdmaprov-cp").stat().st_mode & 0o777 == 0o700
    assert "ANSIBLE_SSH_CONTROL_PATH_DIR" not in environment(tmp_path, HOME="/root", **runtime)


@pytest.mark.parametrize(
    ("hosts", "cores", "free_gb", "wanted"),
    [(2, 16, 64, 2), (1000, 16, 64, 128), (1000, 16, 2, 20), (8, 1, 0.01, 1)],
)
def test_forks_are_bound_by_hosts_cores_and_memory(hosts, cores, free_gb, wanted):
    assert tuning.forks(hosts, cores, int(free_gb * 10**9)) == wanted
