"""Waiting for a node that starts: sshd greets, a login works, the rails are there."""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from rdmaprov.errors import UnreachableError
from rdmaprov.lab import ssh
from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import LabNode
from rdmaprov.lab.patience import limit_s

# Of a quiet machine, as all limits of the lab (patience.py). An emulated node answers after 45 s.
BOOT_TIMEOUT_S = 240.0
POLL_S = 1.0
SSH_TIMEOUT_S = 60.0
LOGIN_ATTEMPTS = 5  # sshd greets a moment before logins are allowed (pam_nologin)

# Prints "RAIL NETDEV" for each rail once its hardware is there. Soft-RoCE names its network device
# so; a bond's first GID may be unset.
_READ_RAILS = """
for rail in {rails}; do
    netdev=/sys/class/infiniband/mlx5_{bond}$rail/parent
    for try in $(seq 100); do [ -e $netdev ] && break; sleep 0.3; done
    echo "$rail $(cat $netdev)"
done
"""


@dataclass(frozen=True)
class Login:
    """Logging in to the nodes of one lab; is_running() tells if a node's machine runs."""

    layout: Layout
    is_running: Callable[[str], bool]

    def wait_for_boot(self, node: LabNode, boots: int = 1) -> LabNode:
        """Wait until a node answers and its rails are there; return it with their netdevs.

        Args:
            boots: how many times it may boot until it answers.

        Raises:
            UnreachableError: its machine ended, or it did not answer in time.
        """
        self.wait(node, boots)
        numbers = " ".join(str(rail.number) for rail in node.rails)
        said = self._run(
            node, _READ_RAILS.format(rails=numbers, bond="bond_" if node.rails[0].more_macs else "")
        )
        lines = [line.split() for line in said.splitlines()]
        return node.with_netdevs({int(line[0]): line[1] for line in lines if len(line) == 2})

    def wait(self, node: LabNode, boots: int = 1) -> None:
        """Wait until a node's sshd greets; UnreachableError: too late, or its machine ended."""
        longest_s = boots * limit_s(BOOT_TIMEOUT_S, self.layout.root)
        give_up = time.monotonic() + longest_s
        while not ssh.answers(self.layout, node):
            if not self.is_running(node.name):
                raise _unreachable(node, "its virtual machine ended while booting")
            if time.monotonic() > give_up:
                raise _unreachable(node, f"no answer over ssh within {longest_s:.0f} s")
            time.sleep(POLL_S)

    def _run(self, node: LabNode, script: str) -> str:
        said = ""
        longest_s = limit_s(SSH_TIMEOUT_S, self.layout.root)
        for _ in range(LOGIN_ATTEMPTS):
            try:
                done = ssh.call(self.layout, node.name, script, longest_s)
            except subprocess.TimeoutExpired:
                said = f"no answer within {longest_s:.0f} s"
                continue
            if done.returncode == 0:
                return done.stdout
            said = done.stderr.strip()
            time.sleep(POLL_S)
        raise _unreachable(node, f"its rails cannot be read: {said}")


def _unreachable(node: LabNode, what: str) -> UnreachableError:
    return UnreachableError(f"{node.name}: {what}", f"Run: rdmaprov lab console {node.name}")
