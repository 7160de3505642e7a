"""Convert values to the types of their specs, with Ansible's own conversions.

Stricter than Ansible in five places, where it would turn a slip into another value: a number
for text if YAML changed it (`2.30` is 2.3), a number in base 60 or octal (`3:1` is 181), text
for a list or a dictionary (split at commas), true for a number, and a missing value.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible.module_utils.common.validation import (
    check_type_bool,
    check_type_bytes,
    check_type_float,
    check_type_int,
)

from rdmaprov.inventory.schema import Option
from rdmaprov.inventory.type_messages import (
    as_text,
    expected,
    in_words,
    nearest_name,
    notation,
    written_text,
    wrong_type,
)

Path = tuple[str | int, ...]
Report = Callable[["Path", str, str], None]

_NUMBERS = frozenset({"int", "float", "bytes"})
_ENDLESS = re.compile(r"e\+?\d{3}|\d{64}", re.IGNORECASE)
_READ_ALIKE = 8  # numbers below it mean the same in decimal, octal and base 60
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": check_type_int,
    "float": check_type_float,
    "bool": check_type_bool,
    "bytes": check_type_bytes,
}


@dataclass(frozen=True)
class Invalid:
    """The marker for a value that cannot be converted; its problem has been reported."""


INVALID = Invalid()


def coerce(option: Option, value: Any, report: Report, path: Path = ()) -> Any:
    """Return the value in the option's type, INVALID if it or a part of it cannot be converted.

    Args:
        report: called with the path inside the value, what is wrong and what to write.
    """
    if value is None:
        message = f"{path[-1]} has no value" if path else "has no value"
        report(path, message, f"write {expected(option)}, or remove the line")
        return INVALID
    converted = _convert(option, value, report, path)
    # A list's choices are those of its elements, as in Ansible.
    free = not option.choices or option.type == "list"
    if converted is INVALID or free or converted in option.choices:
        return converted
    report(path, f"{in_words(value)} is not a valid value", f"write {expected(option, converted)}")
    return INVALID


def _convert(option: Option, value: Any, report: Report, path: Path) -> Any:
    if option.type == "raw":  # a text, or a list of texts
        kind = "list" if isinstance(value, (list, tuple)) else "str"
        option = replace(option, type=kind, elements="str")
    if option.type == "list":
        return _list(option, value, report, path)
    if option.type == "dict":
        return _dict(option, value, report, path)
    try:
        return _scalar(option, value)
    except (TypeError, ValueError):
        report(path, *wrong_type(option, value))
        return INVALID


def _scalar(option: Option, value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise TypeError
    if option.type == "str":
        return _text(option, value)
    if isinstance(value, bool) and option.type != "bool":
        raise TypeError
    if option.type in _NUMBERS and (_is_misread(value) or _is_endless(value)):
        raise ValueError
    converted = _SCALARS[option.type](value)
    return converted if isinstance(converted, bool) else _without_tags(converted)


def _text(option: Option, value: Any) -> str:
    if isinstance(value, bool):
        # YAML 1.1 reads off and on as booleans; Ansible converts back if it is unambiguous.
        words = ("on", "yes", "true") if value else ("off", "no", "false")
        for word in words:
            if word in option.choices:
                return word
        raise TypeError
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and written_text(value) in {"", str(value)}:
        return str(value)
    raise TypeError


def _is_misread(value: Any) -> bool:
    """Return whether YAML read a number in another notation than the one an operator means."""
    if not isinstance(value, (int, float)) or abs(value) < _READ_ALIKE:
        return False
    return notation(written_text(value)) != ""


def _is_endless(value: Any) -> bool:
    """Return whether making a text's number would take all memory."""
    return isinstance(value, str) and _ENDLESS.search(value) is not None


def _without_tags(value: Any) -> Any:
    """Return a number without Ansible's tags."""
    return float(value) if isinstance(value, float) else int(value)


def _list(option: Option, value: Any, report: Report, path: Path) -> Any:
    if not isinstance(value, (list, tuple)):
        report(path, f"{in_words(value)} is not a list", f"write {expected(option, value)}")
        return INVALID
    element = option.element
    if element.type == "raw":
        return list(value)
    items = [coerce(element, item, report, (*path, i)) for i, item in enumerate(value)]
    return INVALID if any(item is INVALID for item in items) else items


def _dict(option: Option, value: Any, report: Report, path: Path) -> Any:
    if not isinstance(value, Mapping):
        report(path, f"{in_words(value)} is not a dictionary", f"write {expected(option)}")
        return INVALID
    if not option.options:
        return _free(value, report, path)
    entries = dict(_entries(option, value, report, path))
    return INVALID if any(item is INVALID for item in entries.values()) else entries


def _entries(
    option: Option, value: Mapping[Any, Any], report: Report, path: Path
) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if str(key) in option.options:
            yield str(key), coerce(option.options[str(key)], item, report, (*path, str(key)))
            continue
        message = f"{in_words(key)} is not a key of {option.name}"
        report((*path, key), message, f"write {nearest_name(str(key), option.options)}")
        yield str(key), INVALID


def _free(value: Mapping[Any, Any], report: Report, path: Path) -> Any:
    """Return a dictionary that may have any keys and values, unless YAML changed one of these."""
    wrong = list(_misread(value, path))
    for each in wrong:
        report(*each)
    return INVALID if wrong else {_key_without_tags(key): item for key, item in value.items()}


def _misread(value: Mapping[Any, Any], path: Path) -> Iterator[tuple[Path, str, str]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _misread(item, (*path, key))
        elif _is_misread(item) or _is_cut(item):
            yield (*path, key), *as_text(item, written_text(item))


def _is_cut(value: Any) -> bool:
    """Return whether a number lost a part of its text that a version number needs."""
    return isinstance(value, float) and written_text(value) not in {"", str(value)}


def _key_without_tags(key: Any) -> Any:
    return int(key) if isinstance(key, int) and not isinstance(key, bool) else str(key)
