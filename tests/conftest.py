"""What every test of the project may rely on."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    # A shell starts what it puts in the background with SIGINT ignored, and children inherit that:
    # a test that interrupts would then wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
