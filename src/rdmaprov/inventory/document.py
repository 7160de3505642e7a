"""The schema as Markdown and as a table, for readers."""

from collections.abc import Iterable, Iterator
from typing import Any

from rdmaprov.inventory.schema import Option, Role, Schema


def markdown(schema: Schema) -> str:
    """Return docs/variables.md."""
    lines = [
        "# Variables",
        "",
        "Every variable that a site can set, by role. Written by `rdmaprov schema --markdown` from",
        "the roles' `meta/argument_specs.yml`, which Ansible enforces; `scheduler` is no role, and",
        "`rdmaprov check` alone enforces its variables. A default in braces is derived from other",
        "variables.",
        "",
    ]
    for role in _sort_roles(schema):
        lines += [f"## {role.name}", "", f"{role.text.strip()}", ""]
        for option in role.variables.values():
            lines += [*_paragraph(option), ""]
    return "\n".join(lines).rstrip() + "\n"


def _sort_roles(schema: Schema) -> list[Role]:
    """Return the roles, the one that owns the fabric's facts first."""
    return sorted(schema.parts.values(), key=lambda role: (role.name != "fabric", role.name))


def _paragraph(option: Option) -> Iterator[str]:
    yield f"### {option.name}"
    yield ""
    yield f"{option.description.strip()}"
    yield ""
    yield f"- type: {kind(option)}"
    if option.choices:
        yield f"- choices: {', '.join(f'`{choice}`' for choice in option.choices)}"
    if option.required:
        yield "- required"
    elif option.has_default:
        yield f"- default: `{_literal(option.default)}`"
    else:
        yield "- default: none"
    for inner in option.options.values():
        yield f"- key `{inner.name}` ({kind(inner)}): {inner.description.strip()}"


def kind(option: Option) -> str:
    """Return an option's type in words."""
    words = f"list of {option.elements}" if option.elements else option.type
    return "str, or list of str" if words == "raw" else words


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return str(value) if value else "''"
    if isinstance(value, list):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return str(value)


def table(options: Iterable[Option]) -> Iterator[str]:
    """Yield the variables for a terminal, two lines each."""
    for option in options:
        default = "required" if option.required else f"default {_literal(option.default)}"
        if not option.required and not option.has_default:
            default = "no default"
        choices = f"; one of {', '.join(map(str, option.choices))}" if option.choices else ""
        yield f"{option.name}: {kind(option)}{choices}; {default}"
        yield f"    {option.description.strip()}"
