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
    settings = _settings(target)
    name = _name(settings)
    files = f"{settings.get('userknownhostsfile', '')} {settings.get('globalknownhostsfile', '')}"
    found: dict[str, None] = {}
    for file in files.split():
        path = Path(file).expanduser()
        if path.is_file():
            found.update(dict.fromkeys(_keys_in(path, name)))
    if not found:
        raise NoHostKey(f"known_hosts has no key of {name}")
    return list(found)


def _settings(target: Target) -> dict[str, str]:
    """Return what ssh would use for a connection, by the name of each setting in small letters."""
    said = _run([target.argv[0], "-G", *target.argv[1:]])
    return {name: value for name, _, value in (line.partition(" ") for line in said.splitlines())}


def _name(settings: dict[str, str]) -> str:
    """Return under which name known_hosts has the node; ssh_config(5), HostKeyAlias."""
    if alias := settings.get("hostkeyalias", ""):
        return alias
    host, port = settings.get("hostname", ""), settings.get("port", "22")
    return host if port == "22" else f"[{host}]:{port}"


def _keys_in(path: Path, name: str) -> list[str]:
    """Return the keys of a name in a file, which may have it as a hash; marked ones are left out.

    A line that begins with @ revokes a key, or is of an authority that signs keys.
    """
    lines = _run(["ssh-keygen", "-F", name, "-f", str(path)]).splitlines()
    found = (_LINE.fullmatch(line) for line in lines if not line.startswith(("#", "@")))
    return [match[1] for match in found if match]


def _run(words: list[str]) -> str:
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoHostKey(f"{words[0]}: {error}") from error
    return done.stdout.decode(errors="replace")
