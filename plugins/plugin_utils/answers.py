"""What a node's modules answer, checked: the one place where it enters the controller.

A playbook includes the roles that a survey names, and Ansible acts on keys of any module's result,
such as `ansible_facts`. So a result is built anew from the keys that our modules return, each in
its shape, and anything else makes the task fail on that node alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

from .holder import Holder

# What a site with eight rails and all roles changes is a tenth of it.
MOST_ITEMS = 4096
MOST_CHARACTERS = 4096
MOST_HELD_S = 86400
MOST_PID = 1 << 22  # of Linux
MOST_TICKS = 1 << 62
MOST_TEXT_CHARACTERS = 1024 * 1024  # of a file before and after a change; of a message
_CHANGE = ("layer", "device", "setting", "seen", "wanted")
_DIFF = ("before_header", "after_header", "before", "after")
_ENTRY = frozenset({"changes", "diff", "reboot", "interrupts", "notes", "waits", "stays"})
_TIMER = re.compile(r"rdmaprov-revert-[0-9A-Za-z-]{1,64}")
_BOOT_ID = re.compile(r"[0-9a-f-]{1,36}")
_MOST_UPTIME_S = 1e10  # 300 years
# Control characters but tab and newline, and those that turn the direction of a text around.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Odd(Exception):
    """An answer that is not one of our modules'; the message says why."""


@dataclass(frozen=True)
class Held:
    """Another run holds the node: who, if that is known, and whether its module runs now."""

    holder: Holder | None
    running: bool
    left_s: float
    step: bool = False  # whether that is a long step, which runs on without its run


def role_answer(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a role's module answered: changes, diff, reboot, and so on; confirm, held.

    A module whose long step runs on the node answers `running`, and nothing else.

    Raises:
        Odd: it is not the answer of a role's module.
    """
    if raw.get("failed") or raw.get("unreachable"):
        return {**_failure(raw), **_held(raw)}
    if raw.get("running"):
        return {"changed": False, "running": True}
    answer = {**_plan(raw), "changed": _flag(raw, "changed"), "warnings": _warnings(raw)}
    answer["replaced"] = [
        _fields(each, ("path", "before", "after"), MOST_CHARACTERS)
        for each in _items(raw, "replaced", [])
    ]
    if "confirm" in raw:
        answer["confirm"] = _text(raw["confirm"], "confirm")
        if not _TIMER.fullmatch(answer["confirm"]):
            raise Odd("confirm is not the name of a timer")
    return answer


def survey_answer(raw: Mapping[str, Any], roles: Collection[str]) -> dict[str, Any]:
    """Return what a survey answered: roles, pending, problems, busy, boot_id, and so on; held.

    Raises:
        Odd: it is not the answer of a survey of these roles.
    """
    failed = _failure(raw) if raw.get("failed") or raw.get("unreachable") else {}
    if failed and "roles" not in raw:
        return {**failed, **_held(raw)}
    found = raw.get("roles")
    if not isinstance(found, Mapping) or set(found) != set(roles):
        raise Odd("covers other roles")
    entries = {}
    for role, entry in found.items():
        if not isinstance(entry, Mapping) or not set(entry) <= _ENTRY:
            raise Odd(f"is incomplete: {role}")
        entries[role] = _plan(entry)
    pending = _texts(raw, "pending")
    if len(set(pending)) < len(pending) or not set(pending) <= set(entries):
        raise Odd("has other roles pending than it covers")
    for role, entry in entries.items():
        if (entry["changes"] or entry["waits"]) and role not in pending:
            raise Odd(f"has changes of {role}, which is not pending")
    boot_id = _text(raw.get("boot_id"), "boot_id")
    if not _BOOT_ID.fullmatch(boot_id):
        raise Odd("has no boot_id")
    uptime = raw.get("uptime_s", 0.0)
    if not isinstance(uptime, (int, float)) or not 0 <= uptime < _MOST_UPTIME_S:
        raise Odd("has an uptime_s that is not a number")
    return {
        "changed": False,
        **failed,
        "roles": entries,
        "pending": pending,
        "problems": _texts(raw, "problems"),
        "unknown": [role for role in _texts(raw, "unknown", []) if role in entries],
        "warnings": _warnings(raw),
        "busy": _texts(raw, "busy", []),
        "standing": _texts(raw, "standing", []),
        "boot_id": boot_id,
        "uptime_s": float(uptime),
    }


def held_answer(raw: object) -> Held:
    """Return who holds a node, and until when.

    Raises:
        Odd: it is not the record of a node's lock.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("holder"), Mapping):
        raise Odd("does not say who holds the node")
    left_s = raw.get("left_s")
    if not isinstance(left_s, (int, float)) or not 0 <= left_s <= MOST_HELD_S:
        raise Odd("does not say how long the node is held")
    holder = parse_holder(raw["holder"]) if raw["holder"] else None
    return Held(holder, _flag(raw, "running"), float(left_s), raw.get("step") is True)


def _held(raw: Mapping[str, Any]) -> dict[str, Held]:
    return {"held": held_answer(raw["held"])} if "held" in raw else {}


def parse_holder(raw: Mapping[str, Any]) -> Holder:
    """Return the run that a record names.

    Raises:
        Odd: a field is missing, or not what it must be.
    """
    if set(raw) != {field.name for field in fields(Holder)}:
        raise Odd("names the run that holds the node with other fields")
    return Holder(
        id=_words(raw, "id"),
        user=_words(raw, "user"),
        host=_words(raw, "host"),
        pid=_number(raw, "pid", MOST_PID),
        since=_words(raw, "since"),
        run=_words(raw, "run"),
        machine=_words(raw, "machine"),
        started=_number(raw, "started", MOST_TICKS),
    )


def _words(raw: Mapping[str, Any], name: str) -> str:
    return " ".join(_text(raw[name], name).split())


def _number(raw: Mapping[str, Any], name: str, most: int) -> int:
    value = raw[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise Odd(f"is incomplete: {name} is no number up to {most}")
    return value


def _failure(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a module failed: what it says, or what its interpreter wrote."""
    said = {
        name: clean(raw[name][-MOST_CHARACTERS:])
        for name in ("msg", "module_stderr")
        if isinstance(raw.get(name), str)
    }
    state = "unreachable" if raw.get("unreachable") else "failed"
    return {"msg": "the module gave no reason", "changed": False, **said, state: True}


def _plan(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "changes": [_change(each) for each in _items(raw, "changes")],
        "diff": [_fields(each, _DIFF, MOST_TEXT_CHARACTERS) for each in _items(raw, "diff", [])],
        "reboot": _texts(raw, "reboot"),
        "interrupts": _texts(raw, "interrupts", []),
        "notes": _texts(raw, "notes", []),
        "stays": _texts(raw, "stays", []),
        "waits": _text(raw.get("waits", ""), "waits"),
    }


def _change(each: object) -> dict[str, str]:
    change = _fields(each, _CHANGE, MOST_CHARACTERS)
    if len(change) < len(_CHANGE):
        raise Odd(f"is incomplete: a change has only {', '.join(change)}")
    return change


def _items(raw: Mapping[str, Any], name: str, missing: list[Any] | None = None) -> list[Any]:
    """Return a list of an answer; what stands for one that is missing, if it may be."""
    found = raw.get(name, missing)
    if not isinstance(found, list) or len(found) > MOST_ITEMS:
        raise Odd(f"is incomplete: {name} is no list of at most {MOST_ITEMS}")
    return found


def _texts(raw: Mapping[str, Any], name: str, missing: list[Any] | None = None) -> list[str]:
    return [_text(each, name) for each in _items(raw, name, missing)]


def _warnings(raw: Mapping[str, Any]) -> list[str]:
    """Return the warnings, which Ansible makes objects of when a module's result arrives."""
    found = _items(raw, "warnings", [])
    events = [each if isinstance(each, str) else getattr(each, "event", None) for each in found]
    return [_text(getattr(each, "msg", each), "warnings") for each in events]


def _fields(each: object, names: Collection[str], most: int) -> dict[str, str]:
    if not isinstance(each, Mapping) or not set(each) <= set(names):
        raise Odd(f"has an entry with other fields than {', '.join(names)}")
    return {name: _text(each[name], name, most) for name in names if name in each}


def _text(value: object, name: str, most: int = MOST_CHARACTERS) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise Odd(f"is incomplete: {name} is no text of at most {most} characters")
    return clean(value)


def clean(text: str) -> str:
    """Return a text without what a terminal would obey, or UTF-8 cannot have."""
    whole = text.encode("utf-8", "backslashreplace").decode()
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], whole)


def _flag(raw: Mapping[str, Any], name: str) -> bool:
    value = raw.get(name)
    if not isinstance(value, bool):
        raise Odd(f"is incomplete: {name} is neither true nor false")
    return value
