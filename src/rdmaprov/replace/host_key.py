"""A node's host key, looked at and learnt over the path that every verb uses; never unverified.

ssh itself is asked, with the site's own settings, so that jump hosts and ports are the same as
later; of a node behind a relay, the relay's ssh with the keys that it knows. Strict checking ends
such a connection before ssh sends who wants to log in.
"""

import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rdmaprov.errors import RdmaprovError, UnreachableError
from rdmaprov.probe.jump import known_name, settings
from rdmaprov.probe.patience import in_words
from rdmaprov.probe.reasons import reason
from rdmaprov.probe.target import Target
from rdmaprov.probe.window import waits_s
from rdmaprov.problem import printable

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
_MOST_SAID = 300
_APPEND = 'mkdir -p -m 700 "$(dirname "$1")" && printf "%s\\n" "$2" >> "$1"'
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
    target = _ways(target)[0]
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


def learn(target: Target, key: HostKey) -> str:
    """Replace a node's known key by the one that was allowed; return the file, of each relay.

    Raises:
        HostKeyError: the node shows another key now, or ssh still does not verify it.
    """
    return ", ".join(_learn(way, key) for way in _ways(target))


def _ways(target: Target) -> list[Target]:
    """Return a node by each of its relays that can be reached; by itself if it has none."""
    ways = [replace(target, relays=(relay,)) for relay in target.relays] or [target]
    limit_s = _END_S + max((relay.connect_s for relay in target.relays), default=0)
    there = [one for one in ways if _run(one, ["true"], limit_s).returncode == 0]
    if not there:
        relay = ways[0].relays[0]
        what = f"{target.name}: its relay {relay.name} is unreachable"
        raise HostKeyError(what, f"Try: {relay.login_command}")
    return there


def _learn(target: Target, key: HostKey) -> str:
    files, name = _files(target), known_name(target, settings(target))
    place = _must(target, "mktemp", "-d").strip()
    fresh = f"{place}/known_hosts"
    try:
        _ssh(
            target,
            *("-o", "StrictHostKeyChecking=accept-new", "-o", f"UserKnownHostsFile={fresh}"),
            *("-o", "GlobalKnownHostsFile=/dev/null", "-o", "HashKnownHosts=no"),
        )
        lines = _run(target, ["cat", fresh], _END_S).stdout.splitlines()
        seen = set(_fingerprints(_keygen(target, "-l", "-f", fresh)))
    finally:
        _must(target, "rm", "-r", place)
    if seen != {key.fingerprint}:
        shown = ", ".join(sorted(seen)) or "none"
        raise HostKeyError(
            f"{target.name}: it shows another host key now: {shown}", "Find out why, then try again"
        )
    for file in files:
        if _keygen(target, "-F", name, "-f", file):
            _keygen(target, "-R", name, "-f", file)
    text = "\n".join(f"{name} {line.partition(' ')[2]}" for line in lines)
    _must(target, "sh", "-c", _APPEND, "sh", files[0], text)
    where = f"{target.relay.name}:{files[0]}" if target.relay is not None else files[0]
    if not _KNOWN.search(_ssh(target, *_STRICT)):
        message = f"{target.name}: ssh does not verify the new key, which is in {where}"
        raise HostKeyError(message, f"Remove the old one from GlobalKnownHostsFile: {name}")
    return where


def _shown(target: Target, said: str, *, is_known: bool) -> HostKey:
    found = _SHOWN.search(said)
    if found is None:
        why = reason(said, 255, target)
        raise HostKeyError(f"{target.name}: {why.what}", why.remedy)
    old = [] if is_known else _old(target)
    return HostKey(found[1], found[2], is_known, tuple(dict.fromkeys(old)))


def _old(target: Target) -> list[str]:
    name = known_name(target, settings(target))
    said = [_keygen(target, "-l", "-F", name, "-f", file) for file in _files(target)]
    return [each for text in said for each in _fingerprints(text)]


def _fingerprints(text: str) -> list[str]:
    return _FINGERPRINT.findall(text)


def _files(target: Target) -> list[str]:
    """Return the files in which ssh looks for keys of this user's; on a relay, from its home."""
    words = settings(target).get("userknownhostsfile", "").split()
    home = "" if target.relays else f"{Path.home()}/"
    names = [re.sub("^~/", home, word) for word in words]
    files = [name for name in names if name not in ("none", "/dev/null")]
    if not files:
        message = f"{target.name}: ssh is set to keep no known host keys (UserKnownHostsFile)"
        raise HostKeyError(message, "Name a file there")
    return files


def _ssh(target: Target, *options: str) -> str:
    """Return what ssh says of a connection that no command uses; a silent node is tried twice."""
    argv = [target.argv[0], *options, *_LOOK, *target.argv[1:], "true"]
    waits, silences = waits_s(), 0
    while silences < 2:
        said = _run(target, argv, target.connect_s + _END_S).stderr
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


def _keygen(target: Target, *words: str) -> str:
    return _run(target, ["ssh-keygen", *words], 30).stdout


def _must(target: Target, *argv: str) -> str:
    done = _run(target, argv, 30)
    if done.returncode:
        said = printable(done.stderr.strip())[-_MOST_SAID:]
        raise HostKeyError(f"{target.name}: its host key was not learnt: {said}", "")
    return done.stdout


def _run(target: Target, argv: Sequence[str], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Run a command where ssh to the node runs."""
    try:
        return subprocess.run(
            target.from_relay(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 255, "", "Connection timed out")
    except OSError as error:
        hint = "Install OpenSSH's client on this machine"
        raise RdmaprovError(f"{argv[0]}: {error.strerror}", hint) from error
