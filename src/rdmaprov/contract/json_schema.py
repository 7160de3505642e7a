"""The variables as a JSON Schema, with which editors check a site's files."""

from typing import Any

from rdmaprov.contract.ranges import PAIRS, VALUES
from rdmaprov.inventory.schema import Option, Schema

_TYPES: dict[str, list[str]] = {
    "str": ["string", "integer"],
    "int": ["integer"],
    "float": ["number"],
    "bool": ["boolean"],
    "bytes": ["integer", "string"],
    "list": ["array"],
    "dict": ["object"],
    "raw": ["string", "integer", "array"],
}
# What Ansible renders: allowed in place of any value.
_TEMPLATE = {"type": "string", "pattern": r"\{\{|\{%"}
# As YAML 1.1 reads these words, and as Ansible converts them back.
_BOOLEANS = {True: {"on", "yes", "true"}, False: {"off", "no", "false"}}


def json_schema(schema: Schema) -> dict[str, Any]:
    """Return a JSON Schema for group_vars and host_vars files.

    A file sets only some variables of a node, so nothing is required. It can contain a site's own
    variables, whose names do not begin as those of a role or of the scheduler.
    """
    roles = "|".join(schema.parts)
    own = {"not": {"pattern": f"^(?:{roles})_|^__(?:{roles})"}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Variables of an rdmaprov site",
        "type": ["object", "null"],
        "properties": {
            name: {**_value(option), **_words(option)} for name, option in schema.variables.items()
        },
        "propertyNames": {"anyOf": [{"enum": list(schema.variables)}, own]},
    }


def _words(option: Option) -> dict[str, Any]:
    words: dict[str, Any] = {"description": option.description.strip()}
    if option.has_default and not (isinstance(option.default, str) and "{{" in option.default):
        words["default"] = _plain(option.default)
    return words


def _value(option: Option) -> dict[str, Any]:
    return {"anyOf": [_entry(option), _TEMPLATE]}


def _entry(option: Option) -> dict[str, Any]:
    if option.choices:
        return {"enum": [*map(_plain, option.choices), *_booleans(option)]}
    types = _TYPES[option.type]
    entry: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if "array" in types:
        entry["items"] = _item(option)
    elif option.options:
        entry |= _object(option)
    elif option.name in PAIRS:
        entry |= _pairs(option.name)
    elif option.name in VALUES:
        entry |= _bounds(VALUES[option.name])
    return entry


def _booleans(option: Option) -> list[bool]:
    return [value for value, words in _BOOLEANS.items() if words & set(map(str, option.choices))]


def _item(option: Option) -> dict[str, Any]:
    element = option.elements or "str"
    return _value(Option(option.name, element, "", option.role, options=option.options))


def _object(option: Option) -> dict[str, Any]:
    properties = {
        name: {**_value(inner), "description": inner.description.strip()}
        for name, inner in option.options.items()
    }
    return {"properties": properties, "additionalProperties": False}


def _pairs(name: str) -> dict[str, Any]:
    """Return the bounds of a dictionary's keys, which JSON has as texts, and of its values."""
    keys, values = PAIRS[name]
    return {
        "propertyNames": {"enum": [str(key) for key in range(keys[0], keys[1] + 1)]},
        "additionalProperties": {"anyOf": [{"type": "integer", **_bounds(values)}, _TEMPLATE]},
    }


def _bounds(bounds: tuple[float, float]) -> dict[str, Any]:
    return {"minimum": bounds[0], "maximum": bounds[1]}


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
