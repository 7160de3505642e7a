"""One thing in which a job differs from what is expected, and how ranks are named in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rdmaprov.nccl_log.matrix import Channel
from rdmaprov.problem import printable


@dataclass(frozen=True)
class Mismatch:
    """One thing that differs from what is expected, or that the log does not prove.

    Args:
        kind: an id of finding.kinds.
        message: rank, channel and HCA, what was seen and expected.
        remedy: what to look at or to set.
        proven: False when evidence is missing: the result is unknown, which is no pass.
        host: the host that it is about, as the log names it; empty if it is about several.
        part: the device that it is about; empty if it is about none, or about several.

    """

    kind: str
    message: str
    remedy: str
    proven: bool = True
    host: str = ""
    part: str = ""

    def __str__(self) -> str:
        """Return it as one line."""
        return printable(f"{self.message}; {self.remedy}")


def format_ranks(channels: list[Channel]) -> str:
    """Return the ranks of channels, such as `ranks 0-3`."""
    return format_numbers(sorted({channel.rank.number for channel in channels}))


def format_numbers(found: Collection[int]) -> str:
    """Return ranks by their numbers, such as `rank 7`."""
    return f"rank{'s' if len(found) > 1 else ''} {format_ranges(found)}"


def format_ranges(found: Collection[int]) -> str:
    """Return numbers as people write them, such as 0-7,9; at most 20 runs."""
    runs: list[list[int]] = []
    for number in sorted(found):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ",".join("-".join(str(end) for end in run) for run in runs[:20])
    return text + (",..." if len(runs) > 20 else "")


def format_count(channels: list[Channel]) -> str:
    """Return how many channels there are, such as `2 channels`."""
    return f"{len(channels)} channel{'s' if len(channels) > 1 else ''}"
