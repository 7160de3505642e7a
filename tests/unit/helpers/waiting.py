"""Wait for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path


def until(true: Callable[[], object], seconds: float = 30) -> bool:
    """Return whether something becomes true."""
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
