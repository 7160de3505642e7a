"""How a node is reached, from the variables and settings that Ansible itself would use."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.loader import become_loader, connection_loader

from rdmaprov.inventory.ansible_api import AnsibleError, error_text, find_plugins
from rdmaprov.inventory.resolve import ResolveError, Variables
from rdmaprov.probe.errors import NodeUnreachable

_SSH = ("smart", "ssh", "ansible.builtin.ssh")
_LOCAL = ("local", "ansible.builtin.local")
_SUDO = ("sudo", "ansible.builtin.sudo")
_OPTIONS = {
    "connection": (
        "port", "remote_user", "private_key_file", "ssh_args", "ssh_common_args",
        "ssh_extra_args", "ssh_executable", "host_key_checking", "timeout", "password",
    ),
    "become": ("become_user", "become_exe", "become_flags", "become_pass"),
}  # fmt: skip
_PLUGINS = {"connection": "ssh", "become": "sudo"}
_GENERAL = (
    "ansible_connection", "ansible_become", "ansible_become_method", "ansible_python_interpreter",
)  # fmt: skip
# What makes one command of ssh, whatever the user's own configuration asks for besides: a master
# that stays behind would keep our pipes open, and a forwarding may be taken already.
_OURS = (
    "-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes",
    "-o", "RemoteCommand=none",
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """A node to connect to.

    Args:
        name: the node's name.
        address: what ssh connects to; empty for this machine itself.
        argv: the command that hands its last argument, which is still to be added, to a shell
            on the node.
        python: starts Python on the node, with the right user; for the node's shell.
        connect_s: seconds for the connection.

    """

    name: str
    address: str
    argv: tuple[str, ...]
    python: str
    connect_s: int


class Targets:
    """Makes targets; what nodes share is looked up once."""

    def __init__(self) -> None:
        find_plugins()
        # So that their settings are known to constants.config.
        connection_loader.get("ssh", class_only=True)
        become_loader.get("sudo", class_only=True)
        self._names = sorted({name for name, _ in self._variables()} | set(_GENERAL))
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def of(self, node: str, variables: Variables) -> Target:
        """Return how a node is reached.

        Raises:
            NodeUnreachable: in a way that this connection cannot.

        """
        try:
            given = {
                name: variables.value(name)
                for name in (*self._names, "ansible_host", "ansible_ssh_host")
                if name in variables
            }
            return _target(node, given, self._settings(given))
        except (ResolveError, AnsibleError) as error:
            text = error.message if isinstance(error, ResolveError) else error_text(error)
            raise NodeUnreachable(f"{node}: {text}", "") from error

    def _variables(self) -> list[tuple[str, str]]:
        return [
            (entry["name"], option)
            for kind, options in _OPTIONS.items()
            for option in options
            for entry in _definitions(kind)[option].get("vars", [])
        ]

    def _settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        key = tuple(f"{name}={given[name]!r}" for name in self._names if name in given)
        if key not in self._known:
            self._known[key] = {
                option: _value(kind, option, given)
                for kind, options in _OPTIONS.items()
                for option in options
            }
        return self._known[key]


def _definitions(kind: str) -> Mapping[str, Any]:
    definitions: Mapping[str, Any] = constants.config.get_configuration_definitions(
        plugin_type=kind, name=_PLUGINS[kind]
    )
    return definitions


def _value(kind: str, option: str, given: Mapping[str, Any]) -> Any:  # noqa: ANN401 - Ansible's
    value, origin = constants.config.get_config_value_and_origin(
        option, plugin_type=kind, plugin_name=_PLUGINS[kind], variables=dict(given)
    )
    # Ansible's own default compresses, and starts a master that stays.
    return None if option == "ssh_args" and origin == "default" else value


def _target(node: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> Target:
    kind = str(given.get("ansible_connection", "ssh"))
    python = _python(node, given, settings)
    timeout = int(settings["timeout"])
    if kind in _LOCAL:
        return Target(node, "", ("/bin/sh", "-c"), python, timeout)
    if kind not in _SSH:
        raise NodeUnreachable(
            f"{node}: ansible_connection is {kind}, and this connection is ssh",
            f"Use testinfra's own, such as --hosts ansible://{node}",
        )
    if settings["password"]:
        raise NodeUnreachable(
            f"{node}: ansible_password is set, and this connection wants a key",
            f"Write ansible_ssh_private_key_file, or use --hosts ansible://{node}",
        )
    address = str(given.get("ansible_host", given.get("ansible_ssh_host", node)))
    return Target(node, address, (*_ssh(settings), address), python, timeout)


def _ssh(settings: Mapping[str, Any]) -> list[str]:
    """Return ssh's arguments in Ansible's order: of two that set the same, the first counts."""
    argv = [str(settings["ssh_executable"] or "ssh"), *_OURS]
    argv += shlex.split(settings["ssh_args"] or "")
    if settings["host_key_checking"] is False:
        argv += ["-o", "StrictHostKeyChecking=no"]
    if settings["port"] is not None:
        argv += ["-o", f"Port={settings['port']}"]
    if settings["private_key_file"]:
        argv += ["-o", f'IdentityFile="{Path(settings["private_key_file"]).expanduser()}"']
    if settings["remote_user"]:
        argv += ["-o", f'User="{settings["remote_user"]}"']
    argv += ["-o", f"ConnectTimeout={settings['timeout']}"]
    for option in ("ssh_common_args", "ssh_extra_args"):
        argv += shlex.split(settings[option] or "")
    return argv


def _python(node: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    interpreter = str(given.get("ansible_python_interpreter", "auto"))
    words = ["python3"] if interpreter.startswith("auto") else shlex.split(interpreter)
    return shlex.join([*_become(node, given, settings), *words])


def _become(node: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    if not _true(given.get("ansible_become", constants.DEFAULT_BECOME)):
        return []
    method = str(given.get("ansible_become_method", constants.DEFAULT_BECOME_METHOD))
    if method not in _SUDO or settings["become_pass"]:
        what = f"ansible_become_method is {method}" if method not in _SUDO else "sudo's password"
        raise NodeUnreachable(
            f"{node}: {what}: this connection knows sudo without a password only",
            f"Let ansible_user run sudo without one, or use --hosts ansible://{node}",
        )
    flags = shlex.split(settings["become_flags"] or "")
    user = str(settings["become_user"] or "root")
    return [str(settings["become_exe"] or "sudo"), *flags, "-n", "-u", user]


def _true(value: object) -> bool:
    return str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t")
