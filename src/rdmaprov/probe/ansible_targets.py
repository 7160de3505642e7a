"""How nodes are reached, from the variables and settings that Ansible itself would use."""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.loader import become_loader, connection_loader

from rdmaprov.inventory.ansible_api import AnsibleError, error_text, find_plugins
from rdmaprov.inventory.resolve import ResolveError, Variables
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.sudo import PROMPT
from rdmaprov.probe.target import Target

_SSH = ("smart", "ssh", "ansible.builtin.ssh")
_LOCAL = ("local", "ansible.builtin.local")
_SUDO = ("sudo", "ansible.builtin.sudo")
_OPTIONS = {
    "connection": (
        "port", "remote_user", "private_key_file", "ssh_args", "ssh_common_args", "ssh_extra_args",
        "ssh_executable", "host_key_checking", "timeout", "password",
    ),
    "become": ("become_user", "become_exe", "become_flags", "become_pass"),
}  # fmt: skip
# Ansible's own arguments, with connections that last while the slowest node ends a role, and from
# `plan` to `apply`, and keepalives that end the connections to dead nodes.
SSH_ARGS = (
    "-C -o ControlMaster=auto -o ControlPersist=600s "
    "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
)
NO_JUMP = "-o ProxyJump=none"  # from a relay: a jump host is on the way from here
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


class Targets:
    """Makes targets; what nodes share is looked up once.

    Args:
        become_password: sudo's on nodes that have none of their own, as `--ask-become-pass` asks.
    """

    def __init__(self, become_password: str = "") -> None:
        self._become_password = become_password
        find_plugins()
        # So that their settings are known to constants.config.
        connection_loader.get("ssh", class_only=True)
        become_loader.get("sudo", class_only=True)
        self._names = sorted({name for name, _ in self._variables()} | set(_GENERAL))
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def of(self, node: str, variables: Variables, relays: tuple[Target, ...] = ()) -> Target:
        """Return how a node is reached.

        Args:
            relays: from where; none for this machine. They go straight to the node.

        Raises:
            NodeUnreachable: in a way that this connection cannot.
        """
        try:
            return _target(node, *self._found(variables), relays)
        except (ResolveError, AnsibleError) as error:
            text = error.message if isinstance(error, ResolveError) else error_text(error)
            raise NodeUnreachable(f"{node}: {text}", "") from error

    def as_variables(self, variables: Variables, names: Iterable[str]) -> dict[str, Any]:
        """Return the variables with which Ansible reaches a node from its relay, as `of` does.

        Args:
            names: of the variables that the site writes.

        Raises:
            ResolveError: one has no value.
        """
        given, settings = self._found(variables)
        found = {name: variables.value(name) for name in names if name.startswith("ansible_")}
        python = constants.config.get_config_value("INTERPRETER_PYTHON", variables=given)
        found |= {"ansible_become": _becomes(given), "ansible_python_interpreter": python}
        options = ("ssh_args", "ssh_common_args", "ssh_extra_args")
        own: dict[str, Any] = {
            name: shlex.join(_without_jump(settings[name] or "")) for name in options
        }
        own["ssh_args"] = f"{NO_JUMP} {own['ssh_args'] or SSH_ARGS}"
        last = {option: name for name, option in self._variables()}  # of several, which counts
        if settings["ssh_executable"] == "ssh":
            own["ssh_executable"] = None  # the relay has a program in its place, as we have here
        settings = {**settings, **own}
        return found | {last[name]: each for name, each in settings.items() if each is not None}

    def _found(self, variables: Variables) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the variables of a node that say how it is reached, and the settings."""
        given = {
            name: variables.value(name)
            for name in (*self._names, "ansible_host", "ansible_ssh_host")
            if name in variables
        }
        settings = self._settings(given)
        if self._become_password and not settings["become_pass"]:
            settings = {**settings, "become_pass": self._become_password}
        return given, settings

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


def _target(
    node: str, given: Mapping[str, Any], settings: Mapping[str, Any], relays: tuple[Target, ...]
) -> Target:
    kind = str(given.get("ansible_connection", "ssh"))
    interpreter = _interpreter(given)
    become = _become(node, given, settings)
    python, plain = shlex.join([*become, *interpreter]), shlex.join(interpreter)
    password = str(settings["become_pass"]) if become and settings["become_pass"] else ""
    timeout = int(settings["timeout"])
    if kind in _LOCAL:
        return Target(node, "", ("/bin/sh", "-c"), python, timeout, plain, password)
    if kind not in _SSH:
        raise NodeUnreachable(
            f"{node}: ansible_connection is {kind}; rdmaprov connects by ssh",
            f"Use testinfra's connection: --hosts ansible://{node}",
        )
    if settings["password"]:
        raise NodeUnreachable(
            f"{node}: ansible_password is set; rdmaprov needs a key",
            f"Set ansible_ssh_private_key_file, or use --hosts ansible://{node}",
        )
    address = str(given.get("ansible_host", given.get("ansible_ssh_host", node)))
    argv = (*_ssh(settings, is_here=not relays), address)
    user, port = (str(settings[option] or "") for option in ("remote_user", "port"))
    return Target(node, address, argv, python, timeout, plain, password, user, port, relays=relays)


def as_relay(host: Target) -> Target:
    """Return how a host is reached as a relay: as who logs in, whose keys reach the nodes.

    What is silent is found out before a node's own limits are over, so that no node is blamed.
    """
    alive = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3") if host.address else ()
    argv = (*host.argv[:-1], *alive, host.argv[-1]) if alive else host.argv
    return replace(host, argv=argv, python=host.interpreter, password="")


def _ssh(settings: Mapping[str, Any], *, is_here: bool) -> list[str]:
    """Return ssh's arguments in Ansible's order: of two that set the same, the first counts."""
    argv = [str(settings["ssh_executable"] or "ssh"), *_OURS]
    split = shlex.split if is_here else _without_jump
    argv += [] if is_here else NO_JUMP.split()
    argv += split(settings["ssh_args"] or "")
    if settings["host_key_checking"] is False:
        argv += ["-o", "StrictHostKeyChecking=no"]
    if settings["port"] is not None:
        argv += ["-o", f"Port={settings['port']}"]
    if settings["private_key_file"]:
        key = Path(settings["private_key_file"])
        argv += ["-o", f'IdentityFile="{key.expanduser() if is_here else key}"']
    if settings["remote_user"]:
        argv += ["-o", f'User="{settings["remote_user"]}"']
    argv += ["-o", f"ConnectTimeout={settings['timeout']}"]
    for option in ("ssh_common_args", "ssh_extra_args"):
        argv += split(settings[option] or "")
    return argv


def _without_jump(text: str) -> list[str]:
    """Return ssh's arguments without -J, which ssh does not take after a ProxyJump."""
    words = shlex.split(text)
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if before != "-J" and not word.startswith("-J")
    ]


def _interpreter(given: Mapping[str, Any]) -> list[str]:
    interpreter = str(given.get("ansible_python_interpreter", "auto"))
    return ["python3"] if interpreter.startswith("auto") else shlex.split(interpreter)


def _become(node: str, given: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return what to put before a program for it to run as the right user."""
    if not _becomes(given):
        return []
    method = str(given.get("ansible_become_method", constants.DEFAULT_BECOME_METHOD))
    if method not in _SUDO:
        raise NodeUnreachable(
            f"{node}: ansible_become_method is {method}; rdmaprov supports sudo only",
            f"Set ansible_become_method: sudo, or use --hosts ansible://{node}",
        )
    flags = shlex.split(settings["become_flags"] or "")
    if settings["become_pass"]:
        # -S: it reads from the connection; -p: so that we know when it asks.
        asks = ["-S", "-p", PROMPT]
        flags = [*_without_n(flags), *asks]
    else:
        flags.append("-n")
    user = str(settings["become_user"] or "root")
    return [str(settings["become_exe"] or "sudo"), *flags, "-u", user]


def _becomes(given: Mapping[str, Any]) -> bool:
    return _true(given.get("ansible_become", constants.DEFAULT_BECOME))


def _without_n(flags: list[str]) -> list[str]:
    """Return sudo's flags without the one that forbids it to ask, as Ansible takes it out."""
    rest = [
        flag if flag.startswith("--") else re.sub(r"^(-\w*)n(\w*)$", r"\1\2", flag)
        for flag in flags
        if flag != "--non-interactive"
    ]
    return [flag for flag in rest if flag != "-"]


def _true(value: object) -> bool:
    return str(value).strip().lower() in ("true", "yes", "on", "1", "y", "t")
