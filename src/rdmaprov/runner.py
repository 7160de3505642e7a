"""Run Ansible with ansible-runner.

Of settings that make Ansible fast and let no task last for ever, the user's environment and
ansible.cfg take precedence.
"""

from __future__ import annotations

import os
import shlex
import shutil
import site
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import ansible
from ansible import constants
from ansible.plugins.loader import connection_loader

from rdmaprov.errors import UsageError
from rdmaprov.interrupt import Interrupt
from rdmaprov.inventory.ansible_api import find_plugins

if TYPE_CHECKING:
    from ansible_runner import Runner


# One fork: 100 MB, as Red Hat's controller counts.
# docs.redhat.com, AAP 2.6, "Capacity settings for instance groups and container groups"
_BYTES_PER_FORK = 100 * 1000 * 1000
# It counts four for a core. A fork of ours mostly waits for its node: bench/apply.py on two cores,
# 48 nodes with nothing to do: 29 s with 8 forks, 18 s with 16, 20 s with 32.
_FORKS_PER_CORE = 8
# sun_path has 108 bytes with its end. ssh binds the name with a dot and 16 characters added, then
# renames it; Ansible's name has 10.
_LONGEST_DIRECTORY = 107 - len("/0123456789.ABCDEFGHIJKLMNOP")
# The longest that a role's steps may take one after the other is three hours (an hour each for
# packages, modules and an image). A node that has not answered after this long never will.
_TASK_LIMIT_S = 4 * 3600
# Ansible's own arguments, with connections that last from `plan` to `apply`, and keepalives that
# end the connections to dead nodes.
_SSH_ARGS = (
    "-C -o ControlMaster=auto -o ControlPersist=120s "
    "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
)
# How often to look for a signal to stop.
_POLL_S = 1
_PROGRAM = "ansible-playbook"


def environment(hosts: int) -> dict[str, str]:
    """Return environment variables for a run of Ansible with this many hosts."""
    chosen = {}
    if _is_default("pipelining", "ssh"):
        chosen["ANSIBLE_PIPELINING"] = "True"
    if _is_default("ssh_args", "ssh"):
        chosen["ANSIBLE_SSH_ARGS"] = _SSH_ARGS
    if _is_default("control_path_dir", "ssh") and _is_default("control_path", "ssh"):
        chosen.update(_control_path_dir())
    if _is_default("TASK_TIMEOUT"):
        chosen["ANSIBLE_TASK_TIMEOUT"] = str(_TASK_LIMIT_S)
    if hosts and _is_default("DEFAULT_FORKS"):
        chosen["ANSIBLE_FORKS"] = str(forks(hosts, os.cpu_count() or 1, _free_bytes()))
    return chosen


def forks(hosts: int, cores: int, free_bytes: int) -> int:
    """Return how many nodes to work on at a time: all, or as many as the controller can."""
    return max(1, min(hosts, cores * _FORKS_PER_CORE, free_bytes // _BYTES_PER_FORK))


def _is_default(setting: str, connection: str = "") -> bool:
    """Return whether neither the environment nor ansible.cfg gives a setting."""
    plugin = {}
    if connection:
        find_plugins()
        connection_loader.get(connection, class_only=True)  # so that its settings are known
        plugin = {"plugin_type": "connection", "plugin_name": connection}
    _, origin = constants.config.get_config_value_and_origin(setting, **plugin)
    return bool(origin == "default")


def _control_path_dir() -> dict[str, str]:
    """Return a directory for ssh's control sockets if their paths in Ansible's are too long."""
    usual = Path(
        constants.config.get_config_value(
            "control_path_dir", plugin_type="connection", plugin_name="ssh"
        )
    ).expanduser()
    if len(os.fsencode(usual)) <= _LONGEST_DIRECTORY:
        return {}
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    short = Path(base, "rdmaprov-cp") if base else Path(f"/tmp/rdmaprov-cp-{os.getuid()}")  # noqa: S108
    short.mkdir(mode=0o700, exist_ok=True)
    found = short.lstat()
    if short.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return {}  # another user's; Ansible will report that the path is too long
    return {"ANSIBLE_SSH_CONTROL_PATH_DIR": str(short)}


def _free_bytes() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    return _BYTES_PER_FORK


def run_ansible(hosts: int = 0, **settings: object) -> Runner:
    """Run Ansible with ansible-runner's settings and return its runner.

    It runs in the working directory, as ansible-playbook does, so that ansible.cfg and relative
    names mean the same. The files of ansible-runner hold all variables and results; they are
    removed before this returns. A signal to stop ends Ansible (see Interrupt) and raises
    KeyboardInterrupt; ansible-runner alone would kill Ansible and keep the signal handlers.

    Args:
        hosts: the number of hosts, which limits the forks; 0 leaves the forks to Ansible.
        settings: of ansible-runner; paths must be absolute.
    """
    import ansible_runner  # only where Ansible runs: verbs that run no playbook start without it

    path = _path_with_ansible()

    given = settings.pop("envvars", {})
    with (
        tempfile.TemporaryDirectory(prefix="rdmaprov-", ignore_cleanup_errors=True) as directory,
        Interrupt() as interrupt,
    ):
        runner = ansible_runner.run(
            private_data_dir=directory,
            project_dir=str(Path.cwd()),
            envvars={
                "PATH": path,
                # Ansible's own setting: ansible-runner would turn host key checking off.
                "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
                **environment(hosts),
                **interrupt.environment,
                **(given if isinstance(given, dict) else {}),
            },
            quiet=True,
            # Its copy of Ansible's output would hold secrets.
            settings={"pexpect_timeout": _POLL_S, "suppress_output_file": True},
            cancel_callback=interrupt.must_kill,
            **settings,
        )
    if interrupt.count:
        raise KeyboardInterrupt
    return runner


def _path_with_ansible() -> str:
    """Return PATH with the directory of this Python's own Ansible first.

    It is beside this Python in a virtual environment; pip install --user and --target put it where
    their scripts are, which need not be in PATH.

    Raises:
        UsageError: it is in none of them.
    """
    package = Path(ansible.__file__).parents[1]
    places = [
        Path(sys.executable).parent,
        Path(sys.argv[0]).absolute().parent,
        Path(sysconfig.get_path("scripts")),
        Path(site.getuserbase(), "bin"),
        package / "bin",
    ]
    found = [str(place) for place in places if os.access(place / _PROGRAM, os.X_OK)]
    path = ":".join([*found[:1], os.environ.get("PATH", os.defpath)])
    if shutil.which(_PROGRAM, path=path) is None:
        raise UsageError(
            f"{_PROGRAM} is not installed beside {sys.executable}, and not in PATH",
            "Run: " + shlex.join([sys.executable, "-m", "pip", "install", "ansible-core"]),
        )
    return path
