"""The parts of a role's README.md that the argument spec has: what it owns, and its variables."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tools.generate.dump import inline
from tools.generate.role import Option, Role

_VARIABLES = "## Variables\n"


def text(role: Role, page: str) -> str:
    """Return the page with these parts current, and all others as they are.

    The introduction ends at the first heading; the variables end at the heading after them.
    """
    start, mark, rest = page.partition(_VARIABLES)
    if not mark:
        raise ValueError(f"{role.path}/README.md has no heading: {_VARIABLES}")
    after = rest[rest.index("\n## ") + 1 :] if "\n## " in rest else ""
    body = start[start.index("\n## ") + 1 :] if "\n## " in start else ""
    head = f"# {role.name}\n\n{textwrap.fill(role.text, 100)}\n\n"
    return head + body + _VARIABLES + "\n" + _section(role) + (f"\n{after}" if after else "")


def _section(role: Role) -> str:
    page = f"[docs/variables.md](../../docs/variables.md#{role.name})"
    lines = [f"Choices and derived defaults: {page}.", ""]
    lines += [_item(name, option, name in role.derived) for name, option in role.options.items()]
    return "\n".join(lines) + "\n"


def _item(name: str, option: Option, derived: bool) -> str:
    facts = ", ".join(_facts(option, derived))
    return f"- `{name}` ({facts}): {option['description'].strip()}"


def _facts(option: Option, derived: bool) -> Iterator[str]:
    yield f"list of {option['elements']}" if "elements" in option else option["type"]
    if option.get("required"):
        yield "required"
    elif derived:
        yield "derived"
    elif "default" in option:
        yield f"default `{inline(option['default'])}`"
