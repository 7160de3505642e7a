"""Bandwidths as they are shown."""

from __future__ import annotations


def format_gb_s(gb_s: float) -> str:
    """Return a bandwidth with three digits and its unit; below 1 GB/s in MB/s.

    >>> [format_gb_s(rate) for rate in (1234, 382.5, 46.875, 8, 0.17)]
    ['1234 GB/s', '382 GB/s', '46.9 GB/s', '8 GB/s', '170 MB/s']
    """
    if 0 < gb_s < 1:
        return f"{1000 * gb_s:.3g} MB/s"
    return f"{gb_s:.0f} GB/s" if gb_s >= 99.95 else f"{gb_s:.3g} GB/s"


def format_percent(share: float) -> str:
    """Return a share as it is shown, such as `72 %`."""
    return f"{100 * share:.0f} %"
