"""Doing things side by side, without holding up an interrupt."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Return work(item) for each item, in their order, done in a thread for each.

    The first error, or an interrupt, comes through at once and does not wait for the other
    threads, as an executor would: they end with the program.
    """
    done: queue.SimpleQueue[tuple[int, Result | None, BaseException | None]] = queue.SimpleQueue()

    def run(index: int, item: Item) -> None:
        try:
            done.put((index, work(item), None))
        except BaseException as error:
            done.put((index, None, error))

    for index, item in enumerate(items):
        threading.Thread(target=run, args=(index, item), daemon=True).start()
    results: dict[int, Result] = {}
    for _ in items:
        index, result, error = done.get()
        if error is not None:
            raise error
        results[index] = result  # type: ignore[assignment] # None only if Result may be None
    return [results[index] for index in range(len(items))]
