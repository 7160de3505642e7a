"""How much output a user wants, and whether in colour; imports no library, so help stays fast."""

import os
from enum import IntEnum


class Verbosity(IntEnum):
    """QUIET: the result alone; VERBOSE: also the output of Ansible, ssh and pytest."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


def no_colour() -> bool:
    """Return whether NO_COLOR is set and not empty (no-color.org)."""
    return bool(os.environ.get("NO_COLOR"))
