"""A bundle for each node: what it needs to apply its part of a site by itself, signed.

A file is JSON: `signed`, a text, and `signature`, ssh-keygen's of that text. `rdmaprov.node.bundle`
reads it on the node.
"""

import base64
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

PROGRAM = "rdmaprov-node"
_MOST_NUMBER = 1 << 53  # that JSON has everywhere


class NotCompiled(RdmaprovError):
    """What a node needs is known only to a run of Ansible."""

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


def write(
    found: Mapping[str, Mapping[str, Any]], directory: Path, sign: Callable[[bytes], bytes]
) -> int:
    """Write the program for nodes, and a bundle for each; return how many are new.

    A number only rises: it is the time, or one more than any that is there. What did not change
    keeps its own, so that the same site makes the same bundles.

    Args:
        sign: returns ssh-keygen's signature of data, for `program.NAMESPACE`.

    Raises:
        OSError: a file cannot be written.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    source = f"#!/usr/bin/python3 -I\n{Path(program.__file__).read_text(encoding='utf-8')}"
    write_bytes_whole(directory / PROGRAM, [source.encode()], mode=0o755)
    code = base64.b64encode(collection.archive()).decode()
    before = {name: _read(directory / f"{name}.bundle") for name in found}
    highest = max((own.get("number", 0) for own in before.values()), default=0)
    number, new = max(int(time.time()), highest + 1), 0
    for name, own in found.items():
        content = {**own, "package": collection.PACKAGE, "archive": code}
        kept = before[name].pop("number", None)
        is_new = kept is None or before[name] != json.loads(json.dumps(content))
        new += is_new
        text = _text({**content, "number": number if is_new else kept}).encode()
        signature = sign(text).decode()
        envelope = _text({"signed": text.decode(), "signature": signature})
        write_bytes_whole(directory / f"{name}.bundle", [envelope.encode()])
    return new


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
