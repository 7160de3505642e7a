"""Connections to the nodes: a key pair, pinned host keys and an ssh configuration of our own."""

import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from rdmaprov.lab.layout import Layout
from rdmaprov.lab.model import Lab, LabNode
from rdmaprov.lab.patience import limit_s
from rdmaprov.lab.process import run

ADDRESS = "127.0.0.1"
USER = "root"
CONNECT_TIMEOUT_S = 10.0
BANNER_TIMEOUT_S = 3.0


def user_key(layout: Layout) -> Path:
    """Return the private key that opens every node of the lab."""
    return layout.root / "id_ed25519"


def host_key(layout: Layout, node: str) -> Path:
    """Return the private key by which a node proves its identity."""
    return layout.node(node) / "ssh_host_ed25519_key"


def known_hosts(layout: Layout) -> Path:
    """Return the file of the nodes' host keys."""
    return layout.root / "known_hosts"


def config(layout: Layout) -> Path:
    """Return the ssh configuration in which each node's name is a host."""
    return layout.root / "ssh_config"


def make_key(path: Path, comment: str) -> None:
    """Make a key pair at path, unless it is there; a half-made one is made again."""
    public = path.with_name(path.name + ".pub")
    if path.exists() and public.exists():
        return
    path.unlink(missing_ok=True)
    public.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The public half is written last by ssh-keygen, so both there means both whole.
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])


def options(layout: Layout) -> dict[str, str]:
    """Return what ssh needs beyond host, port and user; host keys are always verified."""
    return {
        "IdentityFile": str(user_key(layout)),
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": str(known_hosts(layout)),
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "PasswordAuthentication": "no",
        "ConnectTimeout": f"{limit_s(CONNECT_TIMEOUT_S, layout.root):.0f}",
        # The post-quantum default costs an emulated processor most of a second.
        "KexAlgorithms": "curve25519-sha256",
    }


def write_files(layout: Layout, lab: Lab) -> None:
    """Write known_hosts and ssh_config for the lab as it is now."""
    lines = []
    blocks = []
    for node in lab.nodes:
        public = host_key(layout, node.name).with_suffix(".pub").read_text().split()
        lines.append(f"[{ADDRESS}]:{node.port} {public[0]} {public[1]}\n")
        blocks.append(f"Host {node.name}\n  HostName {ADDRESS}\n  Port {node.port}\n")
    common = f"  User {USER}\n  LogLevel ERROR\n"
    common += "".join(f'  {key} "{value}"\n' for key, value in options(layout).items())
    known_hosts(layout).write_text("".join(lines))
    config(layout).write_text("".join(blocks) + "Host *\n" + common)


def command(layout: Layout, node: str, words: Sequence[str] = ()) -> list[str]:
    """Return the argument list that runs words on the node, or a shell without words."""
    return [shutil.which("ssh") or "ssh", "-F", str(config(layout)), node, *words]


def answers(layout: Layout, node: LabNode) -> bool:
    """Return whether something on the node's port greets as an ssh server."""
    longest_s = limit_s(BANNER_TIMEOUT_S, layout.root)
    try:
        with socket.create_connection((ADDRESS, node.port), timeout=longest_s) as tcp:
            tcp.settimeout(longest_s)
            return tcp.recv(4) == b"SSH-"
    except OSError:
        return False


def call(
    layout: Layout, node: str, script: str, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run a shell script on the node, return how it ended; or raise subprocess.TimeoutExpired."""
    return subprocess.run(
        command(layout, node, ["sh", "-s"]),
        input=script,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
