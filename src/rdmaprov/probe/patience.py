"""The one wait more that a node gets which is silent at a limit."""

import asyncio
from typing import Any


class Patience:
    """Whether a node may be waited for one limit more; once in vain, and not again in the run.

    A node that is slow answers in that time, and gets it again. One that hangs costs it once,
    whatever it is asked later.

    Attributes:
        is_spent: whether the node was waited for in vain.
    """

    def __init__(self, *, is_spent: bool = False) -> None:
        self.is_spent = is_spent

    async def wait(self, future: asyncio.Future[Any], limit_s: float, more_s: float) -> str:
        """Wait for a future; return how long that was in vain, in words, empty if it is done.

        Args:
            future: is not cancelled.
            limit_s: seconds to wait for it.
            more_s: seconds after that, where nobody waited for the node in vain before.
        """
        limits = (limit_s,) if self.is_spent else (limit_s, more_s)
        for each in limits:
            await asyncio.wait([future], timeout=each)
            if future.done():
                return ""
        self.is_spent = True
        return in_words(*limits)


def in_words(limit_s: float, more_s: float = 0) -> str:
    """Return how long a node was waited for.

    >>> in_words(20, 20)
    '20 s, nor in 20 s more'
    """
    return f"{limit_s:g} s, nor in {more_s:g} s more" if more_s else f"{limit_s:g} s"
