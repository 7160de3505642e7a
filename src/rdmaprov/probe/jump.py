"""ssh's own view of a way to a node: its settings, and the jump host in them."""

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath

from rdmaprov.probe.target import Target
from rdmaprov.problem import printable

_LIMIT_S = 30


def settings(target: Target) -> dict[str, str]:
    """Return ssh's settings for a node, by their names in small letters; ssh does not connect.

    Raises:
        OSError: there is no ssh.
        subprocess.TimeoutExpired: what it reads does not end.
    """
    argv = target.from_relay([target.argv[0], "-G", *target.argv[1:]])
    done = subprocess.run(argv, stdin=-3, capture_output=True, timeout=_LIMIT_S, check=False)
    found: dict[str, str] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name, value)
    return found


def known_name(target: Target, found: Mapping[str, str]) -> str:
    """Return the name under which ssh keeps a node's host key, by ssh's settings for it."""
    if alias := found.get("hostkeyalias"):
        return alias
    host, port = found.get("hostname", target.address).lower(), found.get("port", "22")
    return host if port == "22" else f"[{host}]:{port}"


@lru_cache(4096)
def jump_host(target: Target) -> str:
    """Return the jump host before a node as ssh's settings name it, empty if there is none."""
    if not target.address or target.relays or PurePath(target.argv[0]).name != "ssh":
        return ""
    try:
        found = settings(target)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    jump = found.get("proxyjump", "none")
    return "" if jump == "none" else printable(jump)[:200]
