"""Results of parsers, kept for texts that come again."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# Our choice: a node of eight rails says half of it, and the fleet's nodes say much the same. A
# parser's results take a few times as much memory, whatever nodes say.
_MOST_CHARACTERS = 1_000_000


def remember(parse: Callable[P, T]) -> Callable[P, T]:
    """Have a pure function of texts keep its results for the texts that were used last.

    Its results are shared, so nobody may alter them. An exception is not kept.
    """
    known: dict[tuple[object, ...], T] = {}
    lock = threading.Lock()
    characters = 0

    @wraps(parse)
    def remembered(*texts: P.args, **others: P.kwargs) -> T:
        nonlocal characters
        if others:
            return parse(*texts, **others)
        with lock:
            if texts in known:
                found = known[texts] = known.pop(texts)
                return found
        found = parse(*texts, **others)
        with lock:
            if texts not in known:
                known[texts] = found
                characters += _length(texts)
            while characters > _MOST_CHARACTERS:
                oldest = next(iter(known))
                del known[oldest]
                characters -= _length(oldest)
        return found

    return remembered


def _length(texts: tuple[object, ...]) -> int:
    return sum(len(str(text)) for text in texts)
