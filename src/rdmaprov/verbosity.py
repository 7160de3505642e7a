"""How much a user wants to see, and whether in colour; imports nothing, so that help stays fast."""

from __future__ import annotations

import os
from enum import IntEnum


class Verbosity(IntEnum):
    """How much is said: QUIET the result alone, VERBOSE also what programs below say."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


def colourless() -> bool:
    """Return whether NO_COLOR is set to something (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))
