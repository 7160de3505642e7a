"""The host keys that ssh knows of a node: those by which it would verify the next connection."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from rdmaprov.certificate.ssh_signature import KEY
from rdmaprov.probe.target import Target

_LIMIT_S = 30
_LINE = re.compile(rf"\S+ ({KEY})(?: .*)?")


class NoHostKey(Exception):
    """Why no key of a node is known."""


def known_keys(target: Target) -> list[str]:
    """Return the public keys of a node, each `type base64`.

    Raises:
        NoHostKey: ssh does not know any.

    """
    if not target.address:
        raise NoHostKey("it is reached without ssh")
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
