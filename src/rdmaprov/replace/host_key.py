"""A node's host key, looked at and learnt over the path that every verb uses; never unverified.

ssh itself is asked, with the site's own settings, so that jump hosts and ports are the same as
later. Strict checking ends such a connection before ssh sends who wants to log in.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.probe.jump import known_name, settings
from rdmaprov.probe.patience import in_words
from rdmaprov.probe.reasons import reason
from rdmaprov.probe.target import Target
from rdmaprov.probe.window import waits_s

_STRICT = ("-o", "StrictHostKeyChecking=yes")
_LOOK = (
    "-o",
    "LogLevel=DEBUG1",
    "-o",
    "PreferredAuthentications=none",
    "-o",
    "ControlPath=none",
    "-o",
    "BatchMode=yes",
)
_END_S = 10  # behind the time for the connection
# The client's own lines [OpenSSH, sshconnect.c and sshconnect2.c]. What a server says is in lines
# that begin otherwise; before the key it is one line with its version.
_SHOWN = re.compile(
    r"^debug1: Server host (?:key|certificate): (\S+) (SHA256:[A-Za-z0-9+/]{43})\b", re.MULTILINE
)
_KNOWN = re.compile(r"^debug1: Host '.*' is known and matches the \S+ host ", re.MULTILINE)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class HostKeyError(UnreachableError):
    """A host key cannot be verified, so nothing was sent to the node."""


@dataclass(frozen=True)
class HostKey:
    """What a node shows of itself."""

    kind: str  # of the key, such as ssh-ed25519
    fingerprint: str  # of the key: `SHA256:` and 43 characters
    is_known: bool  # whether ssh verifies it, by a known key or by a certificate authority's
    old: tuple[str, ...] = ()  # fingerprints of the keys that are known for this name


def look(target: Target) -> HostKey | None:
    """Return what a node shows; None for this machine itself.

    Raises:
        HostKeyError: the site turns the check off, or the node shows nothing.
    """
    if not target.address:
        return None
    if settings(target).get("stricthostkeychecking") in ("no", "off", "false"):
        raise HostKeyError(
            f"{target.name}: the site turns off the check of host keys",
            "Remove StrictHostKeyChecking=no or host_key_checking = False from Ansible's settings",
        )
    said = _ssh(target, *_STRICT)
    if _KNOWN.search(said):
        return _shown(target, said, is_known=True)
    none = ("-o", "UserKnownHostsFile=/dev/null", "-o", "GlobalKnownHostsFile=/dev/null")
    return _shown(target, _ssh(target, *_STRICT, *none), is_known=False)


def learn(target: Target, key: HostKey) -> Path:
    """Replace a node's known key by the one that was allowed; return the file.

    Raises:
        HostKeyError: the node shows another key now, or ssh still does not verify it.
    """
    files, name = _files(target), known_name(target, settings(target))
    with tempfile.TemporaryDirectory(prefix="rdmaprov-") as place:
        fresh = Path(place, "known_hosts")
        _ssh(
            target,
            *("-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={fresh}"),
            *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "HashKnownHosts=no"),
        )
        lines = fresh.read_text().splitlines() if fresh.is_file() else []
        seen = set(_fingerprints(_keygen("-l", "-f", str(fresh)))) if lines else set()
    if seen != {key.fingerprint}:
        shown = ", ".join(sorted(seen)) or "none"
        raise HostKeyError(
            f"{target.name}: it shows another host key now: {shown}", "Find out why, then try again"
        )
    for file in files:
        if file.is_file() and _keygen("-F", name, "-f", str(file)):
            _keygen("-R", name, "-f", str(file))
    files[0].parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files[0].open("a", encoding="utf-8") as opened:
        opened.writelines(f"{name} {line.partition(' ')[2]}\n" for line in lines)
    if not _KNOWN.search(_ssh(target, *_STRICT)):
        message = f"{target.name}: ssh does not verify the new key, which is in {files[0]}"
        raise HostKeyError(message, f"Remove the old one from GlobalKnownHostsFile: {name}")
    return files[0]


def _shown(target: Target, said: str, *, is_known: bool) -> HostKey:
    found = _SHOWN.search(said)
    if found is None:
        why = reason(said, 255, target)
        raise HostKeyError(f"{target.name}: {why.what}", why.remedy)
    old = [] if is_known else _old(target)
    return HostKey(found[1], found[2], is_known, tuple(dict.fromkeys(old)))


def _old(target: Target) -> list[str]:
    name = known_name(target, settings(target))
    there = [file for file in _files(target) if file.is_file()]
    return [
        each for file in there for each in _fingerprints(_keygen("-l", "-F", name, "-f", str(file)))
    ]


def _fingerprints(text: str) -> list[str]:
    return _FINGERPRINT.findall(text)


def _files(target: Target) -> list[Path]:
    """Return the files in which ssh looks for keys of this user's."""
    words = settings(target).get("userknownhostsfile", "").split()
    files = [Path(word).expanduser() for word in words if word not in ("none", "/dev/null")]
    if not files:
        message = f"{target.name}: ssh is set to keep no known host keys (UserKnownHostsFile)"
        raise HostKeyError(message, "Name a file there")
    return files


def _ssh(target: Target, *options: str) -> str:
    """Return what ssh says of a connection that no command uses; a silent node is tried twice."""
    argv = [target.argv[0], *options, *_LOOK, *target.argv[1:], "true"]
    waits, silences = waits_s(), 0
    while silences < 2:
        try:
            said = _run(argv, target.connect_s + _END_S).stderr
        except subprocess.TimeoutExpired:
            said = "Connection timed out"
        if _SHOWN.search(said):
            return said
        why = reason(said, 255, target)
        wait_s = next(waits, None) if why.is_drop else 0
        if wait_s is None or not (why.is_drop or why.is_silence):
            return said
        silences += why.is_silence
        time.sleep(wait_s)
    waited = in_words(target.connect_s, target.connect_s)
    raise HostKeyError(f"{target.name}: {why.what} in {waited}", why.remedy)


def _keygen(*words: str) -> str:
    return _run(["ssh-keygen", *words], 30).stdout


def _run(argv: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except OSError as error:
        hint = "Install OpenSSH's client on this machine"
        raise RdmaprovError(f"{argv[0]}: {error.strerror}", hint) from error
