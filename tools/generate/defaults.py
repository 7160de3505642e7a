"""A role's defaults/main.yml."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tools.generate.dump import block
from tools.generate.role import Role

_HEADER = "# Written by `make generate` from meta/argument_specs.yml{}; changes here are lost.\n"


def text(role: Role) -> str:
    """Return the file: each variable that has a default, in the order of the spec."""
    also = " and meta/derived.yml" if role.derived else ""
    return "---\n" + _HEADER.format(also) + "".join(_entries(role))


def _entries(role: Role) -> Iterator[str]:
    for name, option in role.options.items():
        if name in role.derived:
            yield f"{name}: >-\n" + fold(role.derived[name])
        elif "default" in option:
            yield block({name: option["default"]}, 10_000)


def fold(template: str) -> str:
    """Return the lines of a template as YAML's folded scalar has them."""
    wrapped = textwrap.wrap(template.strip(), 98, break_long_words=False, break_on_hyphens=False)
    return "".join(f"  {line}\n" for line in wrapped)
