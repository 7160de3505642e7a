"""Host names and connection variables that reach command lines: only safe ones pass."""

import difflib
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from rdmaprov.inventory import site_files
from rdmaprov.problem import Position, Problem

# Letters, digits, dot, hyphen and underscore, and the colons of IPv6: nothing that ssh reads as
# an option, and nothing that a shell reads at all.
SAFE = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.:-]*\Z")
_MOST_CHARACTERS = 253  # RFC 1035, as a name is written
CONNECTION = ("ansible_host", "ansible_user", "ansible_port", "ansible_connection")


def relay_names(value: object) -> tuple[str, ...]:
    """Return the names in a fabric_relay: one, several in the order of their turns, or none."""
    names = value if isinstance(value, (list, tuple)) else [value or ""]
    return tuple(str(name) for name in names if name != "")


def is_safe(name: str) -> bool:
    """Return whether a name can be given to ssh."""
    return len(name) <= _MOST_CHARACTERS and SAFE.match(name) is not None


def unsafe_name(variable: str, name: str, position: Position, host: str) -> Problem:
    """Return the problem of an unsafe name."""
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    return Problem(
        position,
        variable,
        f"'{shown}' is not a safe name",
        "use letters, digits, dots and hyphens, and start with a letter or digit",
        "names",
        (host,),
    )


def orphans(site: Path, hosts: Collection[str], groups: Collection[str]) -> Iterator[Problem]:
    """Yield the variable files that belong to no host or group."""
    known = {"group_vars": groups, "host_vars": hosts}
    for path in site_files.variable_files(site):
        kind, entity = path.relative_to(site).parts[:2]
        name = entity
        for suffix in site_files.YAML_SUFFIXES:
            name = name.removesuffix(suffix)
        if name in known[kind] or entity in known[kind]:
            continue
        noun = "group" if kind == "group_vars" else "host"
        near = difflib.get_close_matches(name, [str(item) for item in known[kind]], n=1)
        remedy = f"did you mean {near[0]}?" if near else f"add the {noun} to the inventory"
        yield Problem(Position(str(path)), path.name, f"there is no {noun} {name}", remedy, "names")
