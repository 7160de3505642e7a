"""A node to connect to: the commands that start a shell and Python there."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

_PLACES = re.compile(r"\{command\}|\{quoted\}")


@dataclass(frozen=True)
class Target:
    """A node to connect to.

    Args:
        address: what ssh connects to; empty for this machine itself.
        argv: the command that hands its last argument, which is still to be added, to a shell
            on the node.
        python: starts Python on the node, with the right user; for the node's shell. Where there
            is a password, sudo asks for it with sudo.PROMPT.
        connect_s: seconds for the connection.
        interpreter: starts Python for who has become the right user; for the node's shell.
        password: sudo's; empty if it is to ask for none.
        user: whom ssh logs in as, where Ansible's settings say so.
        login: what a person types to go there, where that is not ssh.
        is_template: whether words of argv have `{command}` or `{quoted}` where the shell's text
            goes, as it is or as one word of a shell; else it comes last.
        relays: hosts on which argv may run, the first one that can be reached; none: it runs here.
    """

    name: str
    address: str
    argv: tuple[str, ...]
    python: str
    connect_s: int
    interpreter: str = "python3"
    password: str = field(default="", repr=False)
    user: str = ""
    port: str = ""
    login: str = ""
    is_template: bool = False
    relays: "tuple[Target, ...]" = ()

    @property
    def relay(self) -> "Target | None":
        """Return the host on which argv runs, unless another one must; None for this machine."""
        return self.relays[0] if self.relays else None

    def command(self, text: str) -> list[str]:
        """Return the command that has a shell on the node run a text."""
        if not self.is_template:
            return [*self.argv, text]
        places = {"{command}": text, "{quoted}": shlex.quote(text)}
        return [_PLACES.sub(lambda found: places[found[0]], word) for word in self.argv]

    def from_relay(self, argv: Sequence[str]) -> list[str]:
        """Return what runs a command where ssh to the node runs: here, or on its relay."""
        return self.relay.command(shlex.join(argv)) if self.relay is not None else [*argv]

    @property
    def login_command(self) -> str:
        """Return the command with which a person goes there."""
        if self.login:
            return self.login
        if not self.address:
            return "a shell on this machine"
        words = ["ssh", *(["-p", self.port] if self.port else [])]
        there = shlex.join([*words, f"{self.user}@{self.address}" if self.user else self.address])
        if self.relay is None or not self.relay.address:
            return there
        return f"{self.relay.login_command} -t {shlex.quote(there)}"

    @property
    def may_hang(self) -> str:
        """Return what to look at when it does not answer."""
        if self.relay is None:
            return "The node may hang: check its console"
        return f"The node or its relay {self.relay.name} may hang: check both"

    @property
    def key_name(self) -> str:
        """Return its name in a file of known host keys, for a shell."""
        other = self.port not in ("", "22")
        return shlex.quote(f"[{self.address}]:{self.port}" if other else self.address)
