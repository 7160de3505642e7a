"""What a node printed, checked before anything uses it: JSON of a known shape, or not at all.

A node is a stranger. Its answer may become a host variable that Ansible renders, a line on a
terminal, a number in a sum. So an answer has a size, known keys, ranges and lengths, and no text of
it can be a template or move a cursor; what does not fit makes that node unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rdmaprov.problem import printable

MOST_BYTES = 1024 * 1024
MOST_CHARACTERS = 4096
_TEMPLATE = re.compile(r"\{[{%#]|[}%#]\}")
_SHOWN = 60


class OddAnswer(ValueError):
    """An answer that is not of the expected shape; the message says why, on one line."""


def parse_answer(text: str, schema: Mapping[str, Any], most_bytes: int = MOST_BYTES) -> Any:  # noqa: ANN401
    """Return the JSON that a node printed.

    Args:
        text: what it printed, with lone surrogates for bytes that are not UTF-8.
        schema: a JSON Schema (2020-12) that names every key.
        most_bytes: the largest answer.

    Raises:
        OddAnswer: it is too large, not JSON, has another shape, or a text that could be a template
            or has control characters.

    """
    if len(text) > most_bytes:
        raise OddAnswer(f"its answer exceeds {most_bytes} bytes")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise OddAnswer("its answer is not JSON") from error
    for value in _texts(document):
        _check_text(value)
    for wrong in _validator(json.dumps(schema)).iter_errors(document):
        where = "/".join(map(str, wrong.absolute_path)) or "shape"
        reason = printable(str(wrong.message))[:_SHOWN]
        raise OddAnswer(f"its answer has a wrong {printable(where)[:_SHOWN]}: {reason}")
    return document


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield key
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


def _check_text(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise OddAnswer(f"its answer has a text of more than {MOST_CHARACTERS} characters")
    if not text.isprintable():
        raise OddAnswer(f"its answer has a control character: {printable(text)[:_SHOWN]}")
    if _TEMPLATE.search(text):
        raise OddAnswer(f"its answer has a template: {text[:_SHOWN]}")


@cache
def _validator(schema: str) -> Any:  # noqa: ANN401 - jsonschema has no types
    from jsonschema import Draft202012Validator  # takes 0.1 s, and most verbs need none of it

    return Draft202012Validator(json.loads(schema))
