"""What ssh and sudo say when there is no connection, as one line with a remedy.

Ansible's failures have the same text of sudo's somewhere inside.
"""

import re
from dataclasses import dataclass

from rdmaprov.probe.jump import jump_host
from rdmaprov.probe.target import Target
from rdmaprov.probe.window import SSH_FAILED, is_dropped
from rdmaprov.problem import printable


@dataclass(frozen=True)
class Reason:
    """What is wrong, and what to do about it."""

    what: str
    remedy: str
    is_silence: bool = False
    is_drop: bool = False

    @property
    def text(self) -> str:
        """Return both on one line."""
        return f"{self.what}. {self.remedy}"


REJECTED = Reason(
    "sudo rejects the password",
    "Check ansible_become_password, or pass the right one with --ask-become-pass",
)
# The first that is found in what sudo or the shell wrote counts. In sudo's source these sentences
# are in src/tgetpass.c and in plugins/sudoers (auth/sudo_auth.c, logging.c, sudoers.c). Ansible has
# two of its own, in plugins/connection/ssh.py.
_SUDO = (
    (r"incorrect password attempt|Sorry, try again|Incorrect sudo password", REJECTED),
    (
        r"you must have a tty",
        Reason(
            "sudo requires a terminal", "On the node, remove requiretty for this user from sudoers"
        ),
    ),
    (
        r"not in the sudoers file|may not run sudo|is not allowed to execute",
        Reason(
            "sudo rejects the user", "On the node, allow ansible_user to run commands in sudoers"
        ),
    ),
    (
        r"sudo: .*(?:password is required|terminal is required)|no password was provided"
        r"|Missing sudo password",
        Reason(
            "sudo requires a password",
            "Pass --ask-become-pass, or allow sudo without a password (NOPASSWD)",
        ),
    ),
    (
        # The shell or env says so; where sudo says it, its "sudo: " goes before another program.
        r"\bsudo\S?: (?:(?:command )?not found|No such file)|command not found: sudo\b",
        Reason(
            "sudo is not installed",
            "Install it on the node, or log in as root and set ansible_become: false",
        ),
    ),
)
_SILENCE = "ssh: no answer from {address}"
# Likewise of ssh: OpenSSH's sentences are in its sshconnect.c, clientloop.c and packet.c.
_SSH = (
    (
        # [github.com/SchedMD/slurm, contribs/pam_slurm_adopt/pam_slurm_adopt.c, contribs/pam]
        r"you have no active jobs on this node|has no active jobs on this node",
        "Slurm's PAM module admits only users with a job there",
        "Let ansible_user in on the node (pam_access); for accept, pass --launcher slurm",
    ),
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
    (r"Could not resolve hostname", "its name does not resolve", "Set its ansible_host"),
    (
        r"No route to host|Network is unreachable|Host is unreachable",
        "no route to the node",
        "Is it up? Try: {ssh}",
    ),
    (
        r"open failed: administratively prohibited",
        "the jump host forbids to connect to the node",
        "On the jump host, allow it in sshd_config: AllowTcpForwarding, PermitOpen",
    ),
    (
        r"No user exists for uid",  # its ssh.c
        "ssh: the user that runs rdmaprov has no entry in /etc/passwd here",
        "Add one, or run as a user that has one",
    ),
    (r"timed out", _SILENCE, "Is it up, and not hung? Try: {ssh}"),
)
_PYTHON = re.compile(
    r"(?:python\S*|env): (?:command )?not found|python[\d.]*: No such file"
    r"|(?:not found|No such file).*python"
)
_SHIM = re.compile(r"pyenv: (\S+): command not found")


def sudo_reason(said: str) -> Reason | None:
    """Return why sudo did not start a program; None if it is not at fault.

    Args:
        said: what sudo and the node's shell wrote to standard error, or Ansible's message.
    """
    return next((found for pattern, found in _SUDO if re.search(pattern, said)), None)


def python_reason(said: str) -> Reason | None:
    """Return why a node has no Python that starts; None if it is not at fault."""
    remedy = "Set its ansible_python_interpreter"
    if shim := _SHIM.search(said):
        return Reason(f"{shim[1]} is a shim of pyenv, which has no such version set", remedy)
    return Reason("python3 was not found", remedy) if _PYTHON.search(said) else None


def ssh_reason(said: str, target: Target) -> Reason | None:
    """Return why ssh made no connection; None if it does not say.

    Args:
        said: what ssh wrote to standard error, with its own exit status, 255.
    """
    names = {
        "node": target.name,
        "address": target.address,
        "key": target.key_name,
        "ssh": target.login_command,
    }
    for pattern, what, remedy in _SSH:
        if re.search(pattern, said):
            return Reason(what.format(**names), remedy.format(**names), what is _SILENCE)
    if is_dropped(said):
        jump = jump_host(target)
        who = f"the jump host {jump} or the node" if jump else "the node's sshd"
        at = f"{jump} and the node" if jump else "the node"
        return Reason(
            f"ssh: {who} dropped the login (MaxStartups, or this address is blocked)",
            f"On {at}, read sshd's log, and raise MaxStartups in sshd_config, such as to "
            "200:30:2000; or pass fewer --connections",
            is_drop=True,
        )
    return None


def lost_reason(said: str, target: Target | None, *, by_ssh: bool, by_shell: bool) -> Reason | None:
    """Return why Ansible could ask a node nothing; None if something else failed.

    Args:
        said: its message, and what came on standard error.
        target: how it is reached; None if nobody knows.
        by_ssh: whether ssh failed, so that the text is its.
        by_shell: whether no module of ours ran, so that the text may be the shell's.
    """
    found = ssh_reason(said, target) if by_ssh and target is not None else None
    return found or sudo_reason(said) or (python_reason(said) if by_shell else None)


def reason(said: str, code: int | None, target: Target) -> Reason:
    """Return why a connection could not be made, or ended.

    Args:
        said: what ssh, sudo and the node's shell wrote to standard error.
        code: ssh's exit status; 255 is its own, others are the remote command's.
    """
    found = ssh_reason(said, target)
    if found and not (found.is_drop and code != SSH_FAILED):
        return found
    if found := sudo_reason(said) or python_reason(said):
        return found
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = printable(lines[-1])[:200] if lines else "no message"
    return Reason(f"the connection ended ({code}): {last}", f"Try: {target.login_command}")
