"""What a fleet reached before, from a local file, and whether it reaches less now."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.errors import RdmaprovError
from rdmaprov.runs.directory import runs_directory
from rdmaprov.runs.files import read_whole, write_bytes_whole

# Fewer do not show how much results vary.
MIN_RESULTS = 5
# Results further back are of another state of the fleet.
WINDOW = 50
DROP = 0.05
# Median absolute deviation → standard deviation of normal results (Rousseeuw and Croux, 1993).
_TO_SIGMA = 1.4826
_SIGMAS = 3
_MOST_BYTES = 1 << 24  # a result takes 100 bytes


class HistoryError(RdmaprovError):
    """A history that cannot be read."""


@dataclass(frozen=True)
class Measurement:
    """One measurement: when (ISO 8601), of what (`kind`), and its bus bandwidth in GB/s."""

    time: str
    kind: str
    busbw_gb_s: float


@dataclass(frozen=True)
class Drop:
    """A result below the fleet's own median: by a share, and against how many results."""

    share: float
    median_gb_s: float
    results: int

    def __str__(self) -> str:
        """Return it as a sentence."""
        return (
            f"{100 * self.share:.0f} % below the median of the last {self.results} runs of this "
            f"kind, {self.median_gb_s:.4g} GB/s"
        )


def history_path(site: Path) -> Path:
    """Return the file with what a site's fleet has reached; one for each site."""
    digest = hashlib.sha256(str(site.resolve()).encode()).hexdigest()[:8]
    return runs_directory() / f"history-{site.resolve().name}-{digest}.jsonl"


def kind(fabric: Fabric, size_bytes: int, algorithm: str = "auto") -> str:
    """Return what makes results comparable: the fabric's shape, the size and the algorithm."""
    shared = f" NVLink of {fabric.nvlink_nodes} nodes" if fabric.nvlink_nodes > 1 else ""
    return (
        f"{fabric.nodes}x{fabric.gpus_per_node} {fabric.rails}x{fabric.link_gbps:g}G "
        f"{size_bytes} {algorithm}{shared}"
    )


def read(path: Path) -> tuple[Measurement, ...]:
    """Return the results of a file, the oldest first; none if there is no file.

    A last line without an end was cut by a crash, and is left out.

    Raises:
        HistoryError: another line is not a result.
    """
    try:
        lines = read_whole(path, _MOST_BYTES).decode().split("\n")
    except FileNotFoundError:
        return ()
    except UnicodeDecodeError:
        raise HistoryError(f"{path}: not text", _MOVE) from None
    except OSError as error:
        raise HistoryError(f"{path}: {error.strerror}", _MOVE) from None
    results = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            found = json.loads(line)
            results.append(
                Measurement(str(found["time"]), found["kind"], float(found["busbw_gb_s"]))
            )
        except (ValueError, TypeError, KeyError):
            raise HistoryError(f"{path}:{number}: not a result", _MOVE) from None
    return tuple(results)


_MOVE = "Remove that line, or move the file away to start a new history."


def append(path: Path, result: Measurement) -> None:
    """Add a result to a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(asdict(result), sort_keys=True) + "\n"
    try:
        was = read_whole(path, _MOST_BYTES)
    except FileNotFoundError:
        was = b""
    write_bytes_whole(path, [was[: was.rfind(b"\n") + 1], line.encode()])


def drop(earlier: Sequence[Measurement], now: Measurement) -> Drop | None:
    """Return how far a result lies below the fleet's own median, None if it is not significant.

    A drop is 5 %, or three standard deviations where results vary by more. Median and deviation
    survive that nearly half of the results are bad ones.
    """
    same = [result.busbw_gb_s for result in earlier if result.kind == now.kind][-WINDOW:]
    if len(same) < MIN_RESULTS:
        return None
    middle = median(same)
    if middle <= 0:
        return None
    spread = _TO_SIGMA * median(abs(value - middle) for value in same) / middle
    share = 1 - now.busbw_gb_s / middle
    if share < max(DROP, _SIGMAS * spread):
        return None
    return Drop(share, middle, len(same))
