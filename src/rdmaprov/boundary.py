"""What a node printed, checked before anything uses it: JSON of a known shape, or not at all.

A node is a stranger. Its answer may become a host variable that Ansible renders, a line on a
terminal, a number in a sum. So an answer has a size, known keys, ranges and lengths; what does not
fit makes that node unknown.

A check is a function that returns where a value is wrong: None if it is right, an empty text for
the value itself, else a path such as `rails/0/pci`. It is no JSON Schema, as a fleet's ranks print
half a million lines and a node has 16,000 counters, of which a validator checks 10,000 a second.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rdmaprov.problem import printable

MOST_BYTES = 4 * 1024 * 1024  # eight NICs with 3,000 counters each take a tenth of it
MOST_CHARACTERS = 4096
MOST_ITEMS = 65_536
MOST_NUMBER = 1 << 64  # of a counter
_TEMPLATE = re.compile(r"\{[{%#]|[}%#]\}")
_SHOWN = 60
_MOST_DIGITS = 64

Check = Callable[[object], str | None]
Document = dict[str, Any]  # an answer that its check let through
RIGHT, WRONG = None, ""


class OddAnswer(ValueError):
    """An answer that is not of the expected shape; the message says why, on one line."""


def parse_answer(text: str, check: Check, most_bytes: int = MOST_BYTES) -> Any:  # noqa: ANN401
    """Return the JSON that a node printed.

    Args:
        text: what it printed, with lone surrogates for bytes that are not UTF-8.
        most_bytes: the largest answer.

    Raises:
        OddAnswer: it is too large, not JSON, or of another shape.
    """
    if len(text) > most_bytes:
        raise OddAnswer(f"its answer exceeds {most_bytes} bytes")
    return _checked(text, check)


def parse_file(
    data: bytes, most_parts: int, check: Check = lambda _any: RIGHT, *, unique: bool = False
) -> Any:  # noqa: ANN401
    """Return the JSON of a file that may be a stranger's; the caller limits its bytes.

    Args:
        most_parts: texts, commas and brackets, before they are parsed: two bytes of JSON can take
            sixty of memory.
        unique: refuse a key that stands twice in one mapping; of two readers, each could take
            another one. It takes longer.

    Raises:
        OddAnswer: it is not JSON, of another shape, or takes too much memory.
    """
    # The widest character of a text says how many bytes each takes (PEP 393).
    widest = 1 if data.isascii() else 4 if _WIDEST.search(data) else 2 if _WIDE.search(data) else 1
    if len(data) * widest > _MOST_TEXT:
        raise OddAnswer(f"its answer exceeds {_MOST_TEXT >> 20} MiB as text")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise OddAnswer("its answer is not UTF-8") from error
    if len(text) > most_parts and any(
        number > most_parts for number, _ in enumerate(_PART.finditer(text))
    ):
        raise OddAnswer(f"its answer has more than {most_parts:,} parts")
    hook = _unique if unique else None
    return _checked(text, check, object_pairs_hook=hook, parse_int=_number)


_MOST_TEXT = 1 << 27
_WIDE, _WIDEST = re.compile(rb"[\xc4-\xff]"), re.compile(rb"[\xf0-\xff]")  # RFC 3629
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[,{\[]', re.DOTALL)


def _checked(text: str, check: Check, **hooks: Any) -> Any:  # noqa: ANN401 - of json
    try:
        document = json.loads(text, **hooks)
    except OddAnswer:
        raise
    except (ValueError, RecursionError) as error:
        raise OddAnswer("its answer is not JSON") from error
    if (where := check(document)) is not RIGHT:
        raise OddAnswer(f"its answer has a wrong {shown(where) or 'shape'}")
    return document


def _number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:  # no float has it, and a sum of them takes for ever
        raise OddAnswer(f"its answer has a number of {len(digits):,} characters")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name in found if counts[name] > 1)
        raise OddAnswer(f"its answer has a key twice: {shown(twice)}")
    return found


def shown(text: str) -> str:
    """Return the beginning of what a node said, on one line."""
    return printable(text[:_SHOWN])


def text(pattern: str = "", most: int = MOST_CHARACTERS) -> Check:
    """Check a text: it has no control characters but tab and newline, and UTF-8 has it.

    Args:
        pattern: the whole text matches this regular expression; empty for any text.
        most: characters.
    """
    whole = re.compile(pattern) if pattern else None

    def check(value: object) -> str | None:
        if not isinstance(value, str) or len(value) > most:
            return WRONG
        if not value.isprintable() and not value.translate(_SPACES).isprintable():
            return WRONG
        return RIGHT if whole is None or whole.fullmatch(value) else WRONG

    return check


_SPACES = {ord("\t"): " ", ord("\n"): " ", ord("\r"): " "}


def message(value: object) -> str | None:
    """Check what a program said, such as an error: any characters that UTF-8 has."""
    if not isinstance(value, str) or len(value) > MOST_CHARACTERS:
        return WRONG
    return RIGHT if value.isascii() or not _SURROGATE.search(value) else WRONG


_SURROGATE = re.compile("[\ud800-\udfff]")
WHY = text(most=300)  # a sentence for people


def plain_text(pattern: str) -> Check:
    """Check a text that is written into a site: it matches a pattern, and is no template."""
    check = text(pattern)

    def checked(value: object) -> str | None:
        is_template = isinstance(value, str) and _TEMPLATE.search(value)
        return WRONG if is_template else check(value)

    return checked


def integer(least: int = 0, most: int = MOST_NUMBER) -> Check:
    """Check a whole number."""

    def check(value: object) -> str | None:
        return RIGHT if type(value) is int and least <= value <= most else WRONG

    return check


def integers(least: int = 0, most: int = MOST_NUMBER, items: int = MOST_ITEMS) -> Check:
    """Check a list of whole numbers, as fast as thousands of nodes that answer each second ask."""

    def check(value: object) -> str | None:
        if not isinstance(value, list) or len(value) > items:
            return WRONG
        if not value:
            return RIGHT
        if set(map(type, value)) != {int}:
            return WRONG
        return RIGHT if min(value) >= least and max(value) <= most else WRONG

    return check


def number(most: float = MOST_NUMBER, least: float = 0) -> Check:
    """Check a number that is finite and not negative; what is divided by it needs a `least`."""

    def check(value: object) -> str | None:
        if type(value) not in (int, float):
            return WRONG
        # No math.isfinite: it fails with a whole number of 400 digits. NaN compares as false.
        return RIGHT if least <= value <= most else WRONG  # type: ignore[operator]

    return check


def boolean(value: object) -> str | None:
    """Check a truth."""
    return RIGHT if isinstance(value, bool) else WRONG


def list_of(check: Check, most: int = MOST_ITEMS, least: int = 0) -> Check:
    """Check a list, and how many items it has."""

    def checked(value: object) -> str | None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            return WRONG
        return _first((str(number), check(each)) for number, each in enumerate(value))

    return checked


def mapping_to(check: Check, key: Check | None = None, most: int = MOST_ITEMS) -> Check:
    """Check a mapping with any keys, or with such keys."""
    key = key or text()

    def checked(value: object) -> str | None:
        if not isinstance(value, dict) or len(value) > most:
            return WRONG
        if any(key(each) is not RIGHT for each in value):
            return WRONG
        return _first((name, check(each)) for name, each in value.items())

    return checked


def fields(checks: Mapping[str, Check], optional: Iterable[str] = ()) -> Check:
    """Check a mapping with these keys and no other."""
    required = checks.keys() - set(optional)

    def checked(value: object) -> str | None:
        if not isinstance(value, dict) or not required <= value.keys() <= checks.keys():
            return WRONG
        return _first((name, checks[name](each)) for name, each in value.items())

    return checked


def _first(found: Iterable[tuple[str, str | None]]) -> str | None:
    """Return the path of the first that is wrong."""
    for name, where in found:
        if where is not RIGHT:
            return f"{name}/{where}" if where else name
    return RIGHT
