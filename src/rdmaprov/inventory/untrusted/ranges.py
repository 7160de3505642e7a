"""Host ranges such as gpu[01:16], counted before any name is made."""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass

_RANGE = re.compile(r"\[(\d{0,9}|[A-Za-z]):(\d{1,9}|[A-Za-z])(?::(\d{1,9}))?\]", re.ASCII)
_PORT = re.compile(r"((?:[^\[\]:]|\[[^\[\]]*\])+):(\d{1,5})", re.ASCII)


class WrongRange(ValueError):
    """A pattern of hosts that is none; the message says why."""


@dataclass(frozen=True)
class Pattern:
    """A host, or several with ranges.

    Args:
        texts: what stands around the ranges; one more than there are ranges.
        parts: what each range stands for.
        port: of the hosts; None if there is none.

    """

    texts: tuple[str, ...]
    parts: tuple[tuple[range, int] | str, ...]
    port: int | None

    @property
    def count(self) -> int:
        """The number of hosts."""
        count = 1
        for part in self.parts:
            count *= len(part) if isinstance(part, str) else len(part[0])
        return count

    def names(self) -> Iterator[str]:
        """Yield the hosts' names, in Ansible's order."""
        parts = [part if isinstance(part, str) else _numbers(*part) for part in self.parts]
        for chosen in itertools.product(*parts):
            pairs = itertools.zip_longest(self.texts, chosen, fillvalue="")
            yield "".join(itertools.chain.from_iterable(pairs))


def _numbers(numbers: range, width: int) -> list[str]:
    return [str(number).zfill(width) for number in numbers]


def parse(text: str) -> Pattern:
    """Return a pattern of hosts.

    Raises:
        WrongRange: it is none.

    """
    port = None
    if found := _PORT.fullmatch(text):
        text, port = found[1], int(found[2])
    pieces = _RANGE.split(text)
    # Four pieces for each range: the text before it, its first, its last, its step.
    texts = tuple(pieces[::4])
    if any("[" in each or "]" in each for each in texts):
        raise WrongRange("a range is [first:last] or [first:last:step], of numbers or of letters")
    parts = [_part(*pieces[at + 1 : at + 4]) for at in range(0, len(pieces) - 1, 4)]
    return Pattern(texts, tuple(parts), port)


def _part(first: str, last: str, step: str | None) -> tuple[range, int] | str:
    by = int(step or 1)
    first = first or "0"
    if by < 1 or first.isdigit() != last.isdigit():
        raise WrongRange(f"{first} to {last} by {by} is no range")
    if not first.isdigit():
        letters = string.ascii_letters
        found = letters[letters.index(first) : letters.index(last) + 1 : by]
    elif first[0] == "0" and len(first) > 1 and len(first) != len(last):
        raise WrongRange(f"{first} and {last} have different numbers of digits")
    else:
        width = len(first) if first[0] == "0" else 0
        numbers = range(int(first), int(last) + 1, by)
        if numbers:
            return numbers, width
        found = ""
    if not found:
        raise WrongRange(f"{first} to {last} is an empty range")
    return found
