"""What the file of a record must be, part by part."""

from __future__ import annotations

import json

from rdmaprov.boundary import (
    MOST_NUMBER,
    RIGHT,
    WRONG,
    Check,
    boolean,
    fields,
    integer,
    list_of,
    mapping_to,
    text,
)

FORMAT = "rdmaprov record 1"
_TEMPLATE = ("{{", "{%", "{#")
_MOST_DEPTH = 12
_MOST_TEXT = 9 * 1024 * 1024  # as a connection has of one answer
_MOST_ENTRIES = 262_144


def _any_text(most: int = _MOST_TEXT) -> Check:
    """Check a text of a node's, which may have any characters: it is only compared and parsed."""
    return lambda value: RIGHT if isinstance(value, str) and len(value) <= most else WRONG


def _plain(value: object, depth: int = 0) -> str | None:
    """Check a value of JSON's types, and how deep it is."""
    if depth > _MOST_DEPTH:
        return WRONG
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    else:
        is_whole = isinstance(value, int) and abs(value) <= MOST_NUMBER
        return RIGHT if is_whole or value is None or isinstance(value, (str, float)) else WRONG
    return RIGHT if all(_plain(each, depth + 1) is RIGHT for each in inner) else WRONG


def _without_templates(value: object) -> str | None:
    """Check a variable: a site with it is read by Ansible, which renders templates."""
    if _plain(value) is not RIGHT or any(mark in json.dumps(value) for mark in _TEMPLATE):
        return WRONG
    return RIGHT


def _optional(check: Check) -> Check:
    return lambda value: RIGHT if value is None else check(value)


# By kind, the types of what follows it; see module_utils.record.
_ERRORS: dict[str, list[type]] = {
    "OSError": [int, str],
    "CommandFailed": [int, str, str],
    "NodeError": [str],
    "NotYet": [str],
    "Refused": [str],
}


def _error(value: object) -> str | None:
    if not isinstance(value, list) or not 2 <= len(value) <= 4:
        return WRONG
    kind, *rest = value
    wanted = _ERRORS.get(kind) if isinstance(kind, str) else None
    return RIGHT if [type(each) for each in rest] == wanted else WRONG


_COMMAND = fields(
    {
        "argv": list_of(_any_text(), least=1),
        "stdin": _any_text(),
        "stdout": _any_text(),
        "stderr": _any_text(),
        "exit_code": _optional(integer(least=-255, most=255)),
    },
    optional=("stdin", "stderr"),
)
_KEY = _any_text(1 << 20)
DOCUMENT = fields(
    {
        "format": text(pattern=FORMAT),
        "rdmaprov": text(pattern=r"[\w.+-]{1,40}"),
        "node": text(pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}"),
        "taken": text(pattern=r"[0-9T:.+Z-]{10,40}"),
        "anonymous": boolean,
        "variables": mapping_to(_without_templates, text(pattern=r"[a-z][a-z0-9_]{0,127}")),
        "root": text(pattern=r"/[^\n]*"),
        "user": list_of(integer(), most=2, least=2),
        "files": mapping_to(_optional(_any_text()), _KEY, _MOST_ENTRIES),
        "directories": mapping_to(list_of(_any_text()), _KEY, _MOST_ENTRIES),
        "facts": mapping_to(_plain, _KEY, _MOST_ENTRIES),
        "errors": mapping_to(_error, _KEY, _MOST_ENTRIES),
        "commands": list_of(_COMMAND),
        "checks": list_of(_COMMAND),
    }
)
