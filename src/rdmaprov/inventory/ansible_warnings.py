"""Ansible's warnings while it reads a site, as problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rdmaprov.inventory.ansible_api import error_position, error_text
from rdmaprov.inventory.host_positions import HostPositions
from rdmaprov.inventory.tags import position_of
from rdmaprov.problem import Position, Problem

Warnings = Iterable[tuple[str, object]]
_TYPE = re.compile(r"\"<class '[\w.]*AnsibleTagged(\w+)'>\"")
_UNPARSED = "Unable to parse "


def duplicates(warnings: Warnings) -> Iterator[Problem]:
    """Yield the keys that are written twice in one dictionary."""
    for message, about in warnings:
        at = position_of(about)
        if at is not None and message.startswith("Found duplicate mapping key"):
            yield Problem(
                at,
                str(about),
                "is written twice, and the last one wins",
                "remove one of them",
                "yaml",
            )


def problems(positions: HostPositions, warnings: Warnings) -> Iterator[Problem]:
    """Yield the inventory files, and parts of them, that Ansible cannot use."""
    reasons: list[BaseException] = []
    for message, about in warnings:
        if isinstance(about, BaseException):
            # Each plugin that tries a file reports why it failed, before Ansible gives up the file.
            reasons.append(about)
        elif message.startswith(_UNPARSED):
            file = Path(message.removeprefix(_UNPARSED).split(" as an inventory source")[0])
            if file.is_file():
                yield _unusable(file, reasons)
            reasons = []
        elif message.startswith("Skipping "):
            yield _problem(_skipped_position(positions, message), message)


def _skipped_position(positions: HostPositions, message: str) -> Position:
    """Return the position of a group, or of a key in one, that Ansible skips."""
    if found := re.search(r"key \((.*?)\) in group \((.*?)\)", message):
        return positions.key(found[2], found[1])
    found = re.search(r"Skipping '(.*?)'", message)
    return positions.group(found[1] if found else "")


def _unusable(file: Path, reasons: list[BaseException]) -> Problem:
    yaml = file.suffix in {".yml", ".yaml", ".json"}
    mine = [reason for reason in reasons if f"'{'yaml' if yaml else 'ini'}'" in _origin(reason)]
    for reason in mine or reasons:
        at = error_position(reason)
        return _problem(at or Position(str(file)), error_text(reason))
    return _problem(Position(str(file)), "the file is not an inventory")


def _origin(reason: BaseException) -> str:
    return str(getattr(reason, "obj", ""))


def _problem(at: Position, reason: str) -> Problem:
    return Problem(
        at,
        Path(at.file).name,
        f"Ansible cannot use this: {_TYPE.sub(lambda found: found[1].lower(), reason)}",
        "write groups with hosts, children and vars",
        "inventory",
    )
