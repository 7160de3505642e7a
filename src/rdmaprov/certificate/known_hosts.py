"""The host keys that ssh knows of a node: those by which it would verify the next connection."""

import base64
import hmac
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

from rdmaprov.certificate.ssh_signature import KEY
from rdmaprov.inventory import Fleet
from rdmaprov.probe.errors import NodeUnreachable
from rdmaprov.probe.fleet import FleetTargets
from rdmaprov.probe.jump import known_name, settings
from rdmaprov.probe.target import Target
from rdmaprov.runs.files import read_whole

_SIDE_BY_SIDE = 8
HostKeys = Callable[[Sequence[str]], Mapping[str, list[str] | str]]
_LINE = re.compile(rf"(?:(@\S+)\s+)?(\S+)\s+({KEY})(?:\s.*)?")
_MOST_BYTES = 1 << 26


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
        for path in _files(own):
            for key, lines in _lines_by_key(path).items():
                if any(not mark and _is_for(hosts, name) for mark, hosts in lines):
                    found[key] = None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoHostKey(str(error)) from error
    if not found:
        raise NoHostKey(f"known_hosts has no key of {name}")
    return list(found)


def _files(own: Mapping[str, str]) -> list[Path]:
    named = f"{own.get('userknownhostsfile', '')} {own.get('globalknownhostsfile', '')}"
    return [path for path in (Path(each).expanduser() for each in named.split()) if path.is_file()]


def _lines_by_key(path: Path) -> Mapping[str, list[tuple[str, str]]]:
    """Return by key the lines of a file that have it: their marker and their hosts.

    A marked line revokes the key, or says that it is of an authority that signs keys.
    """
    found = defaultdict(list)
    for line in read_whole(path, _MOST_BYTES).decode(errors="replace").splitlines():
        if parts := _LINE.fullmatch(line.strip()):
            found[parts[3]].append((parts[1] or "", parts[2]))
    return found


def _is_for(hosts: str, name: str) -> bool:
    """Return whether a line's hosts, which may be a hash or patterns, have a name (sshd(8))."""
    if hosts.startswith("|1|"):
        with suppress(ValueError):
            salt, wanted = map(base64.b64decode, hosts[3:].split("|"))
            return hmac.digest(salt, name.encode(), "sha1") == wanted
        return False
    escaped = re.escape(hosts.lower()).replace(r"\*", ".*").replace(r"\?", ".")
    found = [each for each in escaped.split(",") if re.fullmatch(each.lstrip("!"), name)]
    return bool(found) and not any(each.startswith("!") for each in found)


class KnownHosts:
    """The files of known host keys, read once for all nodes of a fleet."""

    def __init__(self) -> None:
        self._usual: dict[tuple[str, ...], dict[str, str]] = {}
        self._lines = cache(_lines_by_key)

    def has(self, target: Target, key: str) -> bool:
        """Return whether ssh would take a host key for a node's, without asking the node.

        Its files may give the node another name: that takes a process of ssh, and is asked second.

        Raises:
            NoHostKey: the node is reached without ssh, or ssh does not run.
        """
        if not target.address:
            raise NoHostKey("it is reached without ssh")
        words = target.argv[:-1]
        try:
            self._usual[words] = self._usual.get(words) or settings(target)
            usual = {**self._usual[words], "hostname": target.address, "hostkeyalias": ""}
            return self._has(usual, target, key) or self._has(settings(target), target, key)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoHostKey(str(error)) from error

    def _has(self, own: Mapping[str, str], target: Target, key: str) -> bool:
        if own.get("revokedhostkeys", "none") != "none":
            raise NoHostKey("ssh's RevokedHostKeys is not read here")
        name = known_name(target, own)
        lines = [line for path in _files(own) for line in self._lines(path).get(key, ())]
        marks = {mark for mark, hosts in lines if _is_for(hosts, name)}
        return "" in marks and "@revoked" not in marks
