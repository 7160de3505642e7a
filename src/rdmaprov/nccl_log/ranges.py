"""How numbers of ranks and channels are written."""

from __future__ import annotations

from collections.abc import Collection

from rdmaprov.nccl_log.matrix import Channel


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
