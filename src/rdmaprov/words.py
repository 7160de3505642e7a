"""Numbers with their nouns, times and lists, as every text writes them."""

from collections.abc import Iterable


def quantity(number: int, noun: str) -> str:
    """Return a number of things.

    >>> quantity(1, "node"), quantity(1024, "node"), quantity(0, "change")
    ('1 node', '1,024 nodes', '0 changes')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time in the largest units that fit.

    >>> duration(3725.2), duration(61), duration(4.21)
    ('1 h 2 min', '1 min 1 s', '4.2 s')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def some(texts: Iterable[str], most: int, between: str = ", ") -> str:
    """Return the first texts of a list, and how many more there are.

    >>> some(["n1", "n2", "n3", "n4"], 3), some(["n1"], 3)
    ('n1, n2, n3 and 1 more', 'n1')
    """
    every = list(texts)
    rest = len(every) - most
    return between.join(every[:most]) + (f" and {rest:,} more" if rest > 0 else "")
