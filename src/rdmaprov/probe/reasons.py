"""What ssh and sudo say when there is no connection, as one line with a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rdmaprov.probe.target import Target
from rdmaprov.problem import printable


@dataclass(frozen=True)
class Reason:
    """What is wrong, and what to do about it."""

    what: str
    remedy: str


# The first that is found in what ssh wrote to its standard error counts. OpenSSH's sentences are
# in its sshconnect.c, clientloop.c and packet.c, sudo's in its src/tgetpass.c and sudo.c.
_KNOWN = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key has changed",
        "If the node was replaced, remove the old key (ssh-keygen -R {key}), "
        "then connect once by hand",
    ),
    (
        r"Host key verification failed|requested strict checking",
        "its host key is unknown",
        "Connect once by hand and compare the key: {ssh}",
    ),
    (
        r"no such identity: [\s\S]*Permission denied \(",
        "the private key file does not exist",
        "Check ansible_ssh_private_key_file; try: {ssh}",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "ssh rejects the user or the key",
        "Check ansible_user and ansible_ssh_private_key_file; try: {ssh}",
    ),
    (r"Connection refused", "ssh: connection refused", "Is sshd running there? Try: {ssh}"),
    (r"Could not resolve hostname", "its name does not resolve", "Set ansible_host for {node}"),
    (
        r"No route to host|Network is unreachable|Host is unreachable",
        "no route to the node",
        "Is it up? Try: {ssh}",
    ),
    (
        r"timed out",
        "ssh: no answer from {address}",
        "Is it up, and not hung? Try: {ssh}",
    ),
    (
        r"sudo: .*(?:password is required|terminal is required|must have a tty)",
        "sudo requires a password",
        "Allow sudo without a password (NOPASSWD), or use --hosts ansible://{node}",
    ),
    (
        r"not in the sudoers file|may not run sudo|is not allowed to execute",
        "sudo rejects the user",
        "Allow ansible_user to become ansible_become_user in sudoers",
    ),
    (
        # The shell or env says so; where sudo says it, its "sudo: " goes before another program.
        r"\bsudo\S?: (?:(?:command )?not found|No such file)|command not found: sudo\b",
        "sudo is not installed",
        "Install it, or log in as root and set ansible_become: false for {node}",
    ),
    (
        r"(?:python\S*|env): (?:command )?not found|(?:not found|No such file).*python",
        "python3 was not found",
        "Set ansible_python_interpreter for {node}",
    ),
)


def reason(said: str, code: int | None, target: Target) -> Reason:
    """Return why a connection could not be made, or ended.

    Args:
        said: what ssh, sudo and the node's shell wrote to standard error.
        code: ssh's exit status; 255 is its own, others are the remote command's.
        target: the node.

    """
    names = {
        "node": target.name,
        "address": target.address,
        "key": target.key_name,
        "ssh": target.login_command,
    }
    for pattern, what, remedy in _KNOWN:
        if re.search(pattern, said):
            return Reason(what.format(**names), remedy.format(**names))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = printable(lines[-1])[:200] if lines else "no message"
    return Reason(f"the connection ended ({code}): {last}", f"Try: {target.login_command}")
