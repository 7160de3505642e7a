"""A stand-in for ib_write_bw and ib_write_lat: it connects by TCP, prints numbers, moves nothing.

How it behaves is in the name of its RDMA device: `good`, or one of BAD. What it prints is of the
version that its device names after a point, such as `good.5`, with an average of its own.
"""

import sys
from pathlib import Path

from tests.tables import cases

FIXTURES = Path(__file__).parents[2] / "fixtures/perftest"
AVERAGE = {"": 97.28, "5": 11024.71, "24": 11030.45}
BAD = (
    *("silent", "hangs", "fails", "garbage", "flood", "killed", "completion", "takes-port", "late"),
    *("unsteady", "clockless"),
)
_SOURCE = cases(__file__, "source")


def install(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    log = place / "log"
    log.touch()
    text = _SOURCE.format(
        python=sys.executable,
        help=str(FIXTURES / "help-4.5.txt"),
        completion=str(FIXTURES / "fail-completion.txt"),
        clock=str(FIXTURES / "fail-4.5-no-clock.txt"),
        log=str(log),
        average=AVERAGE,
    )
    for name in ("ib_write_bw", "ib_write_lat"):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    return log
