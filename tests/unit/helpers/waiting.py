"""Wait for what other processes do; a time that passes without waiting."""

import time
from collections.abc import Callable
from pathlib import Path

from rdmaprov.scheduler.service import Clock


def until(true: Callable[[], object], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.05)
    return bool(true())


def has_ended(pid: Path) -> bool:
    """Return whether the process of a file with its number ends; killing takes a moment."""
    state = Path(f"/proc/{pid.read_text().strip()}/stat")
    return until(
        lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", 10
    )


class Time:
    """A clock that runs only in pauses."""

    def __init__(self):
        self.at = 0.0
        self.clock = Clock(lambda: self.at, self._pause)

    def _pause(self, seconds):
        self.at += seconds
