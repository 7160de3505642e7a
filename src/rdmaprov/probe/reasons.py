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
        "its host key is not the known one",
        "If the machine was swapped, forget the old key (ssh-keygen -R {key}), "
        "then connect once by hand",
    ),
    (
        r"Host key verification failed|requested strict checking",
        "its host key is not known",
        "Connect once by hand and compare the key: {ssh}",
    ),
    (
        r"no such identity: [\s\S]*Permission denied \(",
        "its private key is not there",
        "Look at ansible_ssh_private_key_file; try: {ssh}",
    ),
    (
        r"Permission denied \(|Too many authentication failures",
        "ssh refuses the user or the key",
        "Look at ansible_user and ansible_ssh_private_key_file; try: {ssh}",
    ),
    (r"Connection refused", "ssh: connection refused", "Is sshd running there? Try: {ssh}"),
    (r"Could not resolve hostname", "its name has no address", "Write ansible_host for {node}"),
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
        "sudo asks for a password",
        "Let the user run sudo without one (NOPASSWD), or use --hosts ansible://{node}",
    ),
    (
        r"not in the sudoers file|may not run sudo|is not allowed to execute",
        "sudo refuses the user",
        "Let ansible_user become ansible_become_user in sudoers",
    ),
    (
        r"(?:python\S*|sudo\S*|env): (?:command )?not found|(?:not found|No such file).*python",
        "it has no python3 where it was looked for",
        "Write ansible_python_interpreter for {node}",
    ),
)


def reason(said: str, code: int | None, target: Target) -> Reason:
    """Return why a connection did not come to be, or ended.

    Args:
        said: what ssh, sudo and the node's shell wrote to standard error.
        code: ssh's exit status; 255 is its own, others are the remote command's.
        target: the node.

    """
    names = {
        "node": target.name,
        "address": target.address,
        "key": target.key_name,
        "ssh": target.by_hand,
    }
    for pattern, what, remedy in _KNOWN:
        if re.search(pattern, said):
            return Reason(what.format(**names), remedy.format(**names))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = printable(lines[-1])[:200] if lines else "and does not say why"
    return Reason(f"the connection ended ({code}): {last}", f"Try: {target.by_hand}")
