"""The variables of a stranger's site: their names, their size, and those that run programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rdmaprov.inventory import schema
from rdmaprov.inventory.tags import position_of
from rdmaprov.inventory.untrusted import limits
from rdmaprov.inventory.untrusted.judge import SiteJudge
from rdmaprov.problem import Position

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
# Variables of Ansible that say whom to log in to and how long to wait, and the values with which
# others run no program of the site's choice. Of the rest that begin with ansible_, most can.
_HARMLESS = re.compile(
    r"ansible_(?:(?:ssh_)?(?:host|port|user|pass|password)|become|become_(?:user|pass|password)"
    r"|(?:ssh_)?timeout|ssh_retries|(?:ssh_)?pipelining|group_priority)"
)
_HARMLESS_VALUES = {
    "ansible_connection": re.compile(r"ssh"),
    "ansible_become_method": re.compile(r"sudo|su"),
    "ansible_python_interpreter": re.compile(
        r"auto(?:_silent)?|/usr/(?:local/)?bin/python3?(?:\.\d{1,2})?"
    ),
}


def checked_variables(
    values: Mapping[Any, Any], at: Position, judge: SiteJudge
) -> Iterator[tuple[str, Any]]:
    """Yield the variables that have a name, without those that can make a later verb run code."""
    for name, value in values.items():
        place = position_of(name) or position_of(value) or at
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > limits.MOST_NAME:
            message = "is no name of a variable"
            judge.refuse(place, [str(name)], message, "use letters, digits and underscores")
        elif _runs_code(name, value):
            message = "can make a later verb run a program that the site names"
            judge.refuse(place, [name], message, "remove it, or review it and omit --untrusted")
        elif name in schema.load_shipped().variables and _is_long(value):
            message = f"has a list or dictionary of more than {limits.MOST_ITEMS} items"
            judge.refuse(place, [name], message, "write fewer")
        else:
            yield name, value


def _runs_code(name: str, value: object) -> bool:
    if not name.startswith("ansible_") or _HARMLESS.fullmatch(name):
        return False
    harmless = _HARMLESS_VALUES.get(name)
    return not (harmless and isinstance(value, str) and harmless.fullmatch(value))


def _is_long(value: object) -> bool:
    """Return whether a value, or a part of it, has too many items."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (list, dict)):
            if len(each) > limits.MOST_ITEMS:
                return True
            waiting += each.values() if isinstance(each, dict) else each
    return False
