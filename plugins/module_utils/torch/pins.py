"""Packages pinned to a version, as pip has them. Runs on the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..plan import Refused

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[\w,-]+\])?\s*==\s*"
    r"(?P<version>[\w.+!-]+)(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})*)"
)


@dataclass(frozen=True)
class Pin:
    """One package that is wanted.

    Args:
        name: as wheels are compared by (PEP 503).
    """

    name: str
    version: str
    line: str
    hashed: bool

    def is_met_by(self, seen: str) -> bool:
        """Return whether a version is this one.

        A build, such as +cpu, counts only if it is asked for (PEP 440, version matching).
        """
        wanted = self.version
        return _release(seen if "+" in wanted else seen.partition("+")[0]) == _release(wanted)


def parse(lines: list[str], variable: str) -> list[Pin]:
    """Return what is wanted.

    Raises:
        Refused: a line is not a pin, a package is listed twice, or only some have digests.
    """
    found: dict[str, Pin] = {}
    for line in lines:
        match = _PIN.fullmatch(line.strip())
        if match is None:
            raise Refused(f"{variable}: '{line}' is not pinned; write NAME==VERSION")
        pin = Pin(normal(match["name"]), match["version"], line.strip(), bool(match["hashes"]))
        if pin.name in found:
            raise Refused(f"{variable}: {pin.name} is listed twice")
        found[pin.name] = pin
    bare = [pin.name for pin in found.values() if not pin.hashed]
    if bare and len(bare) < len(found):
        raise Refused(f"{variable}: {bare[0]} has no --hash=sha256:…, and others have; write all")
    return list(found.values())


def normal(name: str) -> str:
    """Return a package's name as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _release(version: str) -> str:
    """Return a version for comparison: 2.13 is 2.13.0."""
    public, plus, build = version.lower().partition("+")
    return re.sub(r"(\.0+)+$", "", public) + plus + build
