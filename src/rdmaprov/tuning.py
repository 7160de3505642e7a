"""Settings of Ansible that make it fast and let no task last for ever.

The user's environment and ansible.cfg take precedence.
"""

import os
from pathlib import Path

from ansible import constants
from ansible.plugins.loader import connection_loader

from rdmaprov.inventory.ansible_api import find_plugins
from rdmaprov.probe.ansible_targets import SSH_ARGS
from rdmaprov.probe.login import write_program
from rdmaprov.probe.session import Limits
from rdmaprov.surroundings import is_writable

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


def environment(hosts: int, place: Path) -> dict[str, str]:
    """Return environment variables for a run of Ansible with this many hosts.

    Args:
        hosts: 0 leaves the forks to Ansible.
        place: an empty directory of this run.
    """
    chosen, limits = {}, Limits()
    if _is_default("ssh_executable", "ssh"):
        chosen["ANSIBLE_SSH_EXECUTABLE"] = write_program(place, limits.open, limits.opening)
    constants.config.get_plugin_options("connection", "ssh")  # refuses a wrong one, once
    if _is_default("pipelining", "ssh"):
        chosen["ANSIBLE_PIPELINING"] = "True"
    if _is_default("ssh_args", "ssh"):
        chosen["ANSIBLE_SSH_ARGS"] = SSH_ARGS
    if _is_default("control_path_dir", "ssh") and _is_default("control_path", "ssh"):
        chosen.update(_control_path_dir())
    if _is_default("TASK_TIMEOUT"):
        chosen["ANSIBLE_TASK_TIMEOUT"] = str(_TASK_LIMIT_S)
    if hosts and _is_default("DEFAULT_FORKS"):
        most = forks(hosts, os.cpu_count() or 1, _free_bytes())
        chosen["ANSIBLE_FORKS"] = str(min(most, limits.open))
    return chosen


def on_relay(hosts: int, cores: int) -> dict[str, str]:
    """Return environment variables for Ansible on a relay, which knows none of the settings here.

    Args:
        cores: of the relay.
    """
    found = {
        "ANSIBLE_PIPELINING": _given("pipelining", "ssh") is not False,
        "ANSIBLE_TASK_TIMEOUT": _given("TASK_TIMEOUT") or _TASK_LIMIT_S,
        "ANSIBLE_FORKS": _given("DEFAULT_FORKS") or min(hosts, cores * _FORKS_PER_CORE),
        "ANSIBLE_HOST_KEY_CHECKING": constants.HOST_KEY_CHECKING,
    }
    return {name: str(value) for name, value in found.items()}


def forks(hosts: int, cores: int, free_bytes: int) -> int:
    """Return how many nodes to work on at a time: all, or as many as the controller can."""
    return max(1, min(hosts, cores * _FORKS_PER_CORE, free_bytes // _BYTES_PER_FORK))


def _is_default(setting: str, connection: str = "") -> bool:
    return _given(setting, connection) is None


def _given(setting: str, connection: str = "") -> object:
    """Return what the environment or ansible.cfg gives for a setting, None if neither does."""
    plugin = {}
    if connection:
        find_plugins()
        connection_loader.get(connection, class_only=True)  # so that its settings are known
        plugin = {"plugin_type": "connection", "plugin_name": connection}
    value, origin = constants.config.get_config_value_and_origin(setting, **plugin)
    return None if origin == "default" else value


def _control_path_dir() -> dict[str, str]:
    """Return a directory for ssh's control sockets if Ansible's is too long or not writable."""
    usual = Path(
        constants.config.get_config_value(
            "control_path_dir", plugin_type="connection", plugin_name="ssh"
        )
    ).expanduser()
    if len(os.fsencode(usual)) <= _LONGEST_DIRECTORY and is_writable(usual):
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
