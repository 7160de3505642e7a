"""What Ansible said while it read a site, as problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rdmaprov.inventory.ansible_api import error_position, error_text, position_of
from rdmaprov.inventory.places import Places
from rdmaprov.problem import Position, Problem

Heard = Iterable[tuple[str, object]]
_UNPARSED = "Unable to parse "


def duplicates(heard: Heard) -> Iterator[Problem]:
    """Yield the keys that are written twice in one dictionary."""
    for message, about in heard:
        at = position_of(about)
        if at is not None and message.startswith("Found duplicate mapping key"):
            yield Problem(
                at, str(about), "is written twice; the last one wins", "remove one", "yaml"
            )


def problems(places: Places, heard: Heard) -> Iterator[Problem]:
    """Yield the inventory files, and the parts of them, that Ansible could not use."""
    reasons: list[BaseException] = []
    for message, about in heard:
        if isinstance(about, BaseException):
            # Each plugin that tried a file says why it failed, before the file is given up.
            reasons.append(about)
        elif message.startswith(_UNPARSED):
            file = Path(message.removeprefix(_UNPARSED).split(" as an inventory source")[0])
            if file.is_file():
                yield _unusable(file, reasons)
            reasons = []
        elif message.startswith("Skipping "):
            yield _problem(_skipped(places, message), message)


def _skipped(places: Places, message: str) -> Position:
    """Return where a group, or a key of one, is written that Ansible passes over."""
    if found := re.search(r"key \((.*?)\) in group \((.*?)\)", message):
        return places.key(found[2], found[1])
    found = re.search(r"Skipping '(.*?)'", message)
    return places.group(found[1] if found else "")


def _unusable(file: Path, reasons: list[BaseException]) -> Problem:
    yaml = file.suffix in {".yml", ".yaml", ".json"}
    mine = [reason for reason in reasons if f"'{'yaml' if yaml else 'ini'}'" in _origin(reason)]
    for reason in mine or reasons:
        at = error_position(reason)
        return _problem(at or Position(str(file)), error_text(reason))
    return _problem(Position(str(file)), "it is not an inventory")


def _origin(reason: BaseException) -> str:
    return str(getattr(reason, "obj", ""))


def _problem(at: Position, reason: str) -> Problem:
    return Problem(
        at,
        Path(at.file).name,
        f"Ansible cannot use this: {reason}",
        "write groups with hosts, children and vars",
        "inventory",
    )
