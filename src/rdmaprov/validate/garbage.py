"""When Python's garbage collector looks at what a run keeps."""

from __future__ import annotations

import gc
from collections.abc import Callable

# Our choice: what a run makes stays to its end or goes with its last reference, so the collector
# finds next to nothing; at Python's own 700 objects it took a third of a run's processor time.
# This many are about 2 MB.
_NEW_OBJECTS = 10_000


def collect_rarely() -> Callable[[], None]:
    """Leave out what is there, and collect rarely; return what undoes both."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])

    def undo() -> None:
        gc.unfreeze()
        gc.set_threshold(*before)

    return undo
