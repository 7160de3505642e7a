"""A bundle for each node: what it needs to apply its part of a site by itself, signed.

A file is JSON: `signed`, a text, and `signature`, ssh-keygen's of that text. `rdmaprov.node.bundle`
reads it on the node.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdmaprov import __version__
from rdmaprov.drift import collection
from rdmaprov.drift.arguments import Arguments, NotCertain
from rdmaprov.errors import RdmaprovError
from rdmaprov.exit_codes import ExitCode
from rdmaprov.inventory import Fleet
from rdmaprov.inventory.site_files import site_digest
from rdmaprov.node import bundle as program
from rdmaprov.runs.files import read_whole, write_bytes_whole
from rdmaprov.words import some

PROGRAM = "rdmaprov-node"
_BUNDLE, _BEFORE = ".bundle", ".before"
_LEFT = "left.json"  # the state of the site that its nodes went back from
_MOST_LEFT = 4096  # bytes
_MOST_NUMBER = 1 << 53  # that JSON has everywhere


class NotCompiled(RdmaprovError):
    """No bundle may be written, as where only a run of Ansible knows what a node needs."""

    exit_code = ExitCode.FAILED


def contents(fleet: Fleet, roles: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the bundle of each node says, but for its number and the code.

    Args:
        roles: names of the roles; empty for all.

    Raises:
        NotCompiled: only Ansible knows the arguments of a role on a node.
    """
    arguments, site = Arguments(fleet, roles), site_digest(fleet.site)
    found = {}
    for node in fleet.nodes:
        try:
            own = arguments.of(node.name)
        except NotCertain as error:
            hint = "Write values that no run of Ansible is needed for."
            raise NotCompiled(f"{node.name}: {error}", hint) from error
        found[node.name] = {
            "rdmaprov_bundle": program.VERSION,
            "rdmaprov": __version__,
            "node": node.name,
            "machine_serial": node.get("fabric_machine_serial"),
            "site": site,
            "standing": node.get("scheduler_standing_processes"),
            "arguments": own,
        }
    return found


def rings(fleet: Fleet) -> list[list[str]]:
    """Return the nodes of each ring, in the order of `fabric_pull_ring`; 0 is the last."""
    found: dict[int, list[str]] = {}
    for node in fleet.nodes:
        found.setdefault(int(node.get("fabric_pull_ring") or 0), []).append(node.name)
    return [found[ring] for ring in sorted(found, key=lambda each: (each == 0, each))]


def write(
    found: Mapping[str, Mapping[str, Any]], directory: Path, sign: Callable[[bytes], bytes]
) -> int:
    """Write the program for nodes, and a bundle for each; return how many are new.

    A number only rises: it is the time, or one more than any that is there. What did not change
    keeps its own, so that the same site makes the same bundles; what did keeps the one before.

    Args:
        sign: returns ssh-keygen's signature of data, for `program.NAMESPACE`.

    Raises:
        OSError: a file cannot be written.
        NotCompiled: nodes went back from this state of the site.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    code = base64.b64encode(collection.archive()).decode()
    new, before = {}, {name: _read(directory / f"{name}{_BUNDLE}") for name in found}
    left, highest, version = _read_left(directory), _highest(before), _digest(code)
    for name, own in found.items():
        content = {**own, "package": collection.PACKAGE, "archive": code}
        if left == [own["site"], version]:
            hint = f"Correct the site, or remove {directory / _LEFT} to compile it as it is."
            raise NotCompiled(f"{directory}: nodes went back from this state of the site", hint)
        kept = before[name].pop("number", None)
        is_new = kept is None or before[name] != json.loads(json.dumps(content))
        new[name] = {**content, "number": highest + 1 if is_new else kept}
    source = f"#!/usr/bin/python3 -I\n{Path(program.__file__).read_text(encoding='utf-8')}"
    write_bytes_whole(directory / PROGRAM, [source.encode()], mode=0o755)
    for name, own in new.items():
        path = directory / f"{name}{_BUNDLE}"
        if own["number"] > highest and before[name]:
            _keep(path)
        _write(path, own, sign)
    return sum(own["number"] > highest for own in new.values())


def write_by_ring(
    found: Mapping[str, Mapping[str, Any]],
    order: Sequence[Sequence[str]],
    is_proven: Callable[[str], bool],
    directory: Path,
    sign: Callable[[bytes], bytes],
) -> tuple[int, int, list[str]]:
    """Write the bundles of one ring after another, and stop behind one without a proof.

    Returns:
        How many are there now, how many of them are new, and for which nodes the others wait.
    """
    wrote = new = 0
    waits_for: list[str] = []
    for ring in order:
        if waits_for:
            return wrote, new, waits_for
        new += write({name: found[name] for name in ring}, directory, sign)
        wrote += len(ring)
        waits_for = [name for name in ring if not is_proven(name)]
    return wrote, new, []


def back(directory: Path, sign: Callable[[bytes], bytes]) -> int:
    """Give nodes with the newest state of the site what they had before, as a new bundle.

    A run that was cut is continued by the next one, as what is left is written down first.

    Raises:
        OSError: a file cannot be written.
        NotCompiled: there is no bundle before one of them.
    """
    now = {path: _read(path) for path in sorted(directory.glob(f"*{_BUNDLE}"))}
    highest, left = _highest(now), _read_left(directory)
    if left is None or left not in map(_identity, now.values()):
        newest = max(now.values(), key=lambda own: own.get("number", 0), default={})
        left = _identity(newest)
    paths = [path for path, own in now.items() if own and _identity(own) == left]
    before = {path: _read(path.with_suffix(_BEFORE)) for path in paths}
    lacks = [path.stem for path in paths if not before[path]] if paths else ["every node"]
    if lacks:
        why = f"{directory}: no bundle before the present one is kept of {some(lacks, 3)}"
        raise NotCompiled(why, "Compile the site as it was.")
    write_bytes_whole(directory / _LEFT, [_text(left).encode()])
    for path in paths:
        _write(path, {**before[path], "number": highest + 1}, sign)
        path.with_suffix(_BEFORE).unlink()
    return len(paths)


def _write(path: Path, content: Mapping[str, Any], sign: Callable[[bytes], bytes]) -> None:
    text = _text(content)
    envelope = _text({"signed": text, "signature": sign(text.encode()).decode()})
    write_bytes_whole(path, [envelope.encode()])


def _keep(path: Path) -> None:
    """Keep a bundle beside the one that replaces it."""
    kept = path.with_suffix(_BEFORE)
    kept.unlink(missing_ok=True)
    kept.hardlink_to(path)


def _highest(found: Mapping[Any, Mapping[str, Any]]) -> int:
    """Return the number that a new one must be above: what is there, or the time."""
    numbers: list[int] = [own.get("number", 0) for own in found.values()]
    return max(int(time.time()) - 1, *numbers, 0)


def _identity(content: Mapping[str, Any]) -> list[str]:
    """Return what a bundle is of: a state of the site, and a version of the roles."""
    return [str(content.get("site")), _digest(str(content.get("archive")))]


def _digest(archive: str) -> str:
    return hashlib.sha256(archive.encode()).hexdigest()


def _read_left(directory: Path) -> list[str] | None:
    try:
        found: list[str] = json.loads(read_whole(directory / _LEFT, _MOST_LEFT))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise NotCompiled(f"{directory / _LEFT}: it is damaged", "Remove it.") from error
    return found


def _text(data: object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"))


def _read(path: Path) -> dict[str, Any]:
    """Return what a bundle says that is there; nothing for what is none."""
    try:
        envelope = json.loads(read_whole(path, program.MOST_BYTES))
        found: dict[str, Any] = json.loads(envelope["signed"])
        return found if 0 < found["number"] < _MOST_NUMBER else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
