"""How much slower than a quiet machine this one runs a lab now, and the time limits for that.

A time limit of the lab is a constant, what a quiet machine of two cores is allowed under emulation,
times the lab's patience. The patience is measured: the boot probe of `accel`, run as the nodes are
(kvm or tcg) before they start, and then the time that they took to boot. Twice the quiet machine's
time gives a patience of 2, whether the processor is slow or shared. Images have a limit of their
own (build.py), since they wait for the network.
"""

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rdmaprov.lab import accel
from rdmaprov.lab.accel import Accel

# On two cores of a Xeon at 2.1 GHz with nothing else to do, under emulation (QEMU 7.2): the probe,
# and two nodes side by side until both answer.
QUIET_PROBE_S = 0.2
QUIET_BOOT_S = 45.0
# No limit is shorter than on the quiet machine, KVM's neither, and none is longer than this often.
MOST = 10.0
MAX_AGE_S = 60.0  # a measurement serves this long; load comes and goes within minutes
FILE = "speed.json"


@dataclass(frozen=True)
class Speed:
    """What was measured last of the machine under a lab."""

    measured_at: float  # when, in seconds since the epoch
    # what the boot probe took, QEMU's own start included; at most MOST times as long as on the
    # quiet machine
    probe_s: float
    # what one boot of the nodes that were started together took; None before the first
    boot_s: float | None = None

    @property
    def patience(self) -> float:
        """Return by what the time limits are multiplied: from 1 to MOST."""
        slower = max(self.probe_s / QUIET_PROBE_S, (self.boot_s or 0.0) / QUIET_BOOT_S)
        return min(max(slower, 1.0), MOST)

    def save(self, directory: Path) -> None:
        """Keep it in a lab's directory."""
        new = directory / f"{FILE}.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(directory / FILE)


def read(directory: Path) -> Speed | None:
    """Return what was measured last; None if nothing was, or it cannot be read."""
    try:
        return Speed(**json.loads((directory / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def measure(directory: Path, chosen: Accel) -> None:
    """Run the probe and keep what it took, unless that was done within MAX_AGE_S.

    Args:
        chosen: the acceleration of its nodes.
    """
    known = read(directory)
    if known is not None and 0 <= time.time() - known.measured_at < MAX_AGE_S:
        return
    longest_s = MOST * QUIET_PROBE_S
    began = time.monotonic()
    ended = accel.boots(chosen, longest_s)
    took_s = time.monotonic() - began if ended else longest_s
    Speed(time.time(), took_s, known.boot_s if known else None).save(directory)


def keep_boot(directory: Path, took_s: float) -> None:
    """Keep what the boot of nodes took that were started together."""
    known = read(directory)
    if known is not None:
        replace(known, boot_s=took_s).save(directory)


def limit_s(base_s: float, directory: Path) -> float:
    """Return a time limit for the machine as it was measured last, in seconds.

    Args:
        base_s: what the quiet machine is allowed.
        directory: of the lab, or of one of its nodes; base_s holds where nothing was measured.
    """
    measured = (read(each) for each in (directory, *directory.parents[:2]))
    return base_s * next((speed.patience for speed in measured if speed), 1.0)
