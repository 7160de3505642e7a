"""Values to the types of their specs, by Ansible's own conversions where they lose nothing.

Stricter than Ansible in four places, where it would turn a slip into another value: a number
with a fraction for a text (`2.30` reads as 2.3), a text for a list or a dictionary (split at
commas), true for a number, and a value that is missing.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible.module_utils.common.validation import (
    check_type_bool,
    check_type_bytes,
    check_type_float,
    check_type_int,
)

from rdmaprov.inventory.schema import Option

Path = tuple[str | int, ...]
Report = Callable[["Path", str, str], None]

_KINDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "bytes": "a size such as 64G",
    "list": "a list",
    "dict": "a dictionary",
}
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": check_type_int,
    "float": check_type_float,
    "bool": check_type_bool,
    "bytes": check_type_bytes,
}


@dataclass(frozen=True)
class Wrong:
    """The marker for a value that could not be converted; its problem has been reported."""


WRONG = Wrong()


def coerce(option: Option, value: Any, report: Report, path: Path = ()) -> Any:
    """Return the value in the option's type, WRONG if it, or a part of it, has none.

    Args:
        option: the spec.
        value: what the site says, templated.
        report: called with the path inside the value, what is wrong and what to write.
        path: where the value is in the variable.

    """
    if value is None:
        report(path, "has no value", f"write {wanted(option)}, or remove the line")
        return WRONG
    converted = _converted(option, value, report, path)
    if converted is WRONG or not option.choices or converted in option.choices:
        return converted
    report(path, f"{_show(value)} is not a choice", f"write {_choices(option, converted)}")
    return WRONG


def _converted(option: Option, value: Any, report: Report, path: Path) -> Any:
    if option.type == "list":
        return _list(option, value, report, path)
    if option.type == "dict":
        return _dict(option, value, report, path)
    try:
        return _scalar(option, value)
    except (TypeError, ValueError):
        message = f"{_show(value)} is not {_KINDS[option.type]}"
        report(path, message, f"write {wanted(option, value)}")
        return WRONG


def _scalar(option: Option, value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise TypeError
    if option.type == "str":
        return _text(option, value)
    if isinstance(value, bool) and option.type != "bool":
        raise TypeError
    converted = _SCALARS[option.type](value)
    return converted if isinstance(converted, bool) else _plain(converted)


def _text(option: Option, value: Any) -> str:
    if isinstance(value, bool):
        # YAML 1.1 reads off and on as booleans; Ansible converts back if it is unambiguous.
        words = ("on", "yes", "true") if value else ("off", "no", "false")
        for word in words:
            if word in option.choices:
                return word
        raise TypeError
    if isinstance(value, (str, int)) and not isinstance(value, float):
        return str(value)
    raise TypeError


def _plain(value: Any) -> Any:
    """Return a number without Ansible's tags."""
    return float(value) if isinstance(value, float) else int(value)


def _list(option: Option, value: Any, report: Report, path: Path) -> Any:
    if not isinstance(value, (list, tuple)):
        report(path, f"{_show(value)} is not a list", f"write {wanted(option)}")
        return WRONG
    element = Option(option.name, option.elements or "raw", "", option.role, options=option.options)
    if element.type == "raw":
        return list(value)
    items = [coerce(element, item, report, (*path, i)) for i, item in enumerate(value)]
    return WRONG if any(item is WRONG for item in items) else items


def _dict(option: Option, value: Any, report: Report, path: Path) -> Any:
    if not isinstance(value, Mapping):
        report(path, f"{_show(value)} is not a dictionary", f"write {wanted(option)}")
        return WRONG
    if not option.options:
        return {_plain_key(key): item for key, item in value.items()}
    entries = dict(_entries(option, value, report, path))
    return WRONG if any(item is WRONG for item in entries.values()) else entries


def _entries(
    option: Option, value: Mapping[Any, Any], report: Report, path: Path
) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if str(key) in option.options:
            yield str(key), coerce(option.options[str(key)], item, report, (*path, str(key)))
            continue
        message = f"{_show(key)} is not a key of {option.name}"
        report((*path, key), message, f"write {did_you_mean(str(key), option.options)}")
        yield str(key), WRONG


def _plain_key(key: Any) -> Any:
    return int(key) if isinstance(key, int) and not isinstance(key, bool) else str(key)


def wanted(option: Option, value: Any = None) -> str:
    """Return what to write for an option, in words."""
    if option.choices:
        return _choices(option, value)
    if option.type == "str" and isinstance(value, float):
        return f"it in quotes, such as '{value}'"
    if option.type == "list":
        items = "{...}" if option.elements == "dict" else "..., ..."
        return f"a list, such as [{items}]"
    if option.type == "dict":
        return "a dictionary, such as {name: value}"
    return _KINDS.get(option.type, option.type)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the nearest known name, or all of them when none is near."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return near[0] if near else f"one of {', '.join(sorted(names))}"


def _choices(option: Option, value: Any) -> str:
    texts = [str(choice) for choice in option.choices]
    near = difflib.get_close_matches(str(value).lower(), [t.lower() for t in texts], n=1)
    if near:
        return next(text for text in texts if text.lower() == near[0])
    return f"one of {', '.join(texts)}"


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
