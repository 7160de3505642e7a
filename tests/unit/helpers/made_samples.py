"""Samples as node/sampler.py writes them, for tests to break."""

import gzip
import json
import struct
from collections.abc import Mapping, Sequence

Columns = Mapping[str, Sequence[int]]
GB = 10**9
TICK_US = 100_000


def pack(
    fast: Columns,
    rows: int = 0,
    *,
    slow: Columns | None = None,
    wall: float = 1_800_000_000.0,
    still: Sequence[str] = (),
    times: Sequence[int] = (),
    **head,
) -> bytes:
    """Return a sampler's file."""
    rows = rows or max((len(column) for column in fast.values()), default=0)
    times = times or [TICK_US] * rows
    seconds = sum(times) / 1e6
    slow = slow or {}
    slow_rows = max((len(column) for column in slow.values()), default=0)
    tables = [
        {"every_s": 0.1, "rows": len(times), "columns": list(fast), "still": list(still)},
        {"every_s": 1.0, "rows": slow_rows, "columns": list(slow), "still": []},
    ]
    document = {
        "wall": [wall, wall + seconds],
        "lasted_us": round(1e6 * seconds),
        "longest_us": 900,
        "cpu_s": 0.004 * seconds,
        "tables": tables,
        **head,
    }
    columns = [times, *fast.values(), [1_000_000] * slow_rows, *slow.values()]
    data = b"".join(struct.pack(f"<{len(column)}Q", *column) for column in columns)
    return gzip.compress(json.dumps(document).encode() + b"\n" + data, mtime=0)


def rails(*rates_gb_s: Sequence[float], **columns: Sequence[int]) -> dict[str, Sequence[int]]:
    """Return columns of rails that send at these rates, tick by tick, and receive as much."""
    found: dict[str, Sequence[int]] = {}
    for rail, rates in enumerate(rates_gb_s):
        words = [round(rate * GB / 4 * TICK_US / 1e6) for rate in rates]
        found[f"{rail}/port.port_xmit_data"] = words
        found[f"{rail}/port.port_rcv_data"] = words
    return {**found, **columns}
