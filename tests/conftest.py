"""What every test of the project may rely on."""

from __future__ import annotations

import signal
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

# Two labs share the tests of the lab. One has all that begins with provisioned nodes, so that they
# are provisioned once, after what tests that; the other has the rest.
PROVISIONED = ("test_acceptance", "test_provision", "test_validate")


def pytest_configure() -> None:
    # A shell starts what it puts in the background with SIGINT ignored, nohup with SIGHUP, and
    # children inherit that: a test that interrupts would then wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_xdist_make_scheduler(config, log):
    """Give `--dist loadscope` whole files, and all files of one lab, to one worker."""
    return Lanes(config, log) if config.getvalue("dist") == "loadscope" else None


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid):
        path = Path(nodeid.partition("::")[0])
        if path.parent != Path("tests/lab"):
            return str(path)
        return "provisioned" if path.stem in PROVISIONED else "factory"
