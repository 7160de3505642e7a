"""The arguments of the roles' modules, from the variables that the roles' tasks give them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from plugins.doc_fragments.options import given_to

_KEYS = ("type", "elements", "required", "choices", "default", "no_log")
_WIDTH = 160  # what ansible-test allows
_HEADER = '''# ruff: noqa: E501
# fmt: off
"""The modules' argument specs. Written by `make generate`; changes here are lost."""

from __future__ import annotations

from typing import Any

'''


_RAILS = "rails"  # the only one of many lines, so that the Python file names it, too


def text(roles: Iterable[str]) -> str:
    """Return the Python file that the roles' modules read.

    Raises:
        ValueError: the rails of two modules differ.
    """
    modules = {role: given_to(role) for role in roles}
    table = {
        role: {
            name: _Name() if name == _RAILS else _code(spec) for name, (_, spec) in module.items()
        }
        for role, module in modules.items()
    }
    first, *others = [module[_RAILS][1] for module in modules.values() if _RAILS in module]
    if any(other != first for other in others):
        raise ValueError(f"the modules' arguments {_RAILS} differ")
    lines = _wrapped(f"{_Name()}: dict[str, Any] = ", _code(first), "")
    lines += ["", "ARGUMENTS: dict[str, dict[str, Any]] = {"]
    for role, own in table.items():
        lines += _wrapped(f"    {role!r}: ", own, ",")
    return _HEADER + "\n".join([*lines, "}", ""])


def _wrapped(start: str, spec: object, end: str) -> list[str]:
    """Return a value on as few lines as there must be."""
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    # No line ends within a text, such as 'RoCE v2'.
    whole = re.sub("(?<![,:=]) ", "\0", f"{start.lstrip()}{spec!r}{end}")
    lines = textwrap.wrap(
        whole,
        _WIDTH,
        initial_indent=start[: len(start) - len(start.lstrip())],
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\0", " ") for line in lines]


class _Name:
    """The name of the rails' spec in the file."""

    def __repr__(self) -> str:
        return _RAILS.upper()


def _code(spec: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: spec[key] for key in _KEYS if key in spec}
    if "options" in spec:
        found["options"] = {name: _code(inner) for name, inner in spec["options"].items()}
    return found
