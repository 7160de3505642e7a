"""The schema for readers and for editors: Markdown, and JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rdmaprov.inventory.schema import Option, Role, Schema

_TYPES: dict[str, list[str]] = {
    "str": ["string", "integer"],
    "int": ["integer"],
    "float": ["number"],
    "bool": ["boolean"],
    "bytes": ["integer", "string"],
    "list": ["array"],
    "dict": ["object"],
}
# What Ansible renders: allowed in place of any value.
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}


def json_schema(schema: Schema) -> dict[str, Any]:
    """Return a JSON Schema for group_vars and host_vars files.

    A file says only a part of what a node must be, and may hold variables of the site's own; so
    nothing is required, and nothing else is refused.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Variables of an rdmaprov site",
        "type": ["object", "null"],
        "properties": {
            name: {"anyOf": [_entry(option), _TEMPLATE], **_words(option)}
            for name, option in schema.variables.items()
        },
    }


def _words(option: Option) -> dict[str, Any]:
    words: dict[str, Any] = {"description": option.description.strip()}
    if option.has_default and not _is_template(option.default):
        words["default"] = _plain(option.default)
    return words


def _entry(option: Option) -> dict[str, Any]:
    types = _TYPES[option.type]
    entry: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if option.choices:
        entry = {"enum": [_plain(choice) for choice in option.choices]}
        if "off" in option.choices:
            entry["enum"].append(False)  # off, as YAML 1.1 reads it
    if option.type == "list":
        entry["items"] = _item(option)
    if option.type == "dict" and option.options:
        entry |= _object(option)
    return entry


def _item(option: Option) -> dict[str, Any]:
    if option.elements == "dict" and option.options:
        return {"type": "object", **_object(option)}
    element = Option(option.name, option.elements or "str", "", option.role)
    return {"anyOf": [_entry(element), _TEMPLATE]}


def _object(option: Option) -> dict[str, Any]:
    properties = {
        name: {"anyOf": [_entry(inner), _TEMPLATE], "description": inner.description.strip()}
        for name, inner in option.options.items()
    }
    return {"properties": properties, "additionalProperties": False}


def _plain(value: Any) -> Any:
    """Return a value without Ansible's tags, as json can write it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


def _is_template(value: Any) -> bool:
    return isinstance(value, str) and "{{" in value


def markdown(schema: Schema) -> str:
    """Return docs/variables.md."""
    lines = [
        "# Variables",
        "",
        "Every variable that a site can set, by role. Written by `rdmaprov schema --markdown` from",
        "the roles' `meta/argument_specs.yml`, which Ansible enforces. A default in braces is",
        "derived from other variables.",
        "",
    ]
    for role in _ordered(schema):
        lines += [f"## {role.name}", "", f"{role.text.strip()}", ""]
        for option in role.variables.values():
            lines += [*_paragraph(option), ""]
    return "\n".join(lines).rstrip() + "\n"


def _ordered(schema: Schema) -> list[Role]:
    """Return the roles, the one that owns the fabric's facts first."""
    return sorted(schema.roles.values(), key=lambda role: (role.name != "fabric", role.name))


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
    return f"list of {option.elements}" if option.elements else option.type


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
