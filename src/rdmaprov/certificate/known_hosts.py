"""The host keys that ssh knows of a node: those by which it would verify the next connection."""

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rdmaprov.certificate.ssh_signature import KEY
from rdmaprov.inventory import Fleet
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.probe.jump import known_name, settings
from rdmaprov.probe.target import Target

_LIMIT_S = 30
_SIDE_BY_SIDE = 8
HostKeys = Callable[[Sequence[str]], Mapping[str, list[str] | str]]
_LINE = re.compile(rf"\S+ ({KEY})(?: .*)?")


class NoHostKey(Exception):
    """Why no key of a node is known."""


def host_keys(fleet: Fleet, launcher: str, password: str) -> HostKeys:
    """Return the function that returns the host keys that ssh knows of nodes.

    Args:
        launcher: who starts what is asked of nodes; only ssh verifies a host key.
    """

    def keys_of(names: Sequence[str]) -> Mapping[str, list[str] | str]:
        if launcher != "ssh":
            return dict.fromkeys(names, f"the launcher {launcher} verifies no host key")
        targets = FleetTargets(fleet, password)
        found: dict[str, Target | str] = {}
        for name in names:  # one after the other: Ansible renders their variables
            try:
                found[name] = targets.of(name)
            except NodeUnreachable as error:
                found[name] = error.message
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            return dict(zip(found, pool.map(_keys, found.values()), strict=True))

    return keys_of


def _keys(target: Target | str) -> list[str] | str:
    try:
        return target if isinstance(target, str) else known_keys(target)
    except NoHostKey as error:
        return str(error)


def known_keys(target: Target) -> list[str]:
    """Return the public keys of a node, each `type base64`.

    Raises:
        NoHostKey: ssh does not know any.
    """
    if not target.address:
        raise NoHostKey("it is reached without ssh")
    if target.relay is not None:
        raise NoHostKey(f"its relay {target.relay.name} verifies it")
    found: dict[str, None] = {}
    try:
        own = settings(target)
        name = known_name(target, own)
        files = f"{own.get('userknownhostsfile', '')} {own.get('globalknownhostsfile', '')}"
        for path in (Path(file).expanduser() for file in files.split()):
            if path.is_file():
                found.update(dict.fromkeys(_keys_in(path, name)))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoHostKey(str(error)) from error
    if not found:
        raise NoHostKey(f"known_hosts has no key of {name}")
    return list(found)


def _keys_in(path: Path, name: str) -> list[str]:
    """Return the keys of a name in a file, which may have it as a hash; marked ones are left out.

    A line that begins with @ revokes a key, or is of an authority that signs keys.
    """
    argv = ["ssh-keygen", "-F", name, "-f", str(path)]
    done = subprocess.run(argv, stdin=-3, capture_output=True, timeout=_LIMIT_S, check=False)
    lines = done.stdout.decode(errors="replace").splitlines()
    found = (_LINE.fullmatch(line) for line in lines if not line.startswith(("#", "@")))
    return [match[1] for match in found if match]
