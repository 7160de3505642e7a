"""Bandwidths, and sizes of messages, as they are shown and as users write them."""

import re
from fractions import Fraction

from rdmaprov.errors import UsageError

FACTOR = 2
MIN_BYTES = 8
MAX_BYTES = 1 << 40
_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


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


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the bytes of `8:1G` or `1M`, each size twice the last; raise UsageError if none."""
    given, hint = f"--sizes {text}", "Pass the smallest and the largest size, such as --sizes 1M:8G"
    first, separator, last = text.partition(":")
    low = _parse_bytes(first, given, hint)
    high = _parse_bytes(last, given, hint) if separator else low
    if high < low:
        raise UsageError(f"{given}: {last} is less than {first}", hint)
    return doubling_sizes(low, high)


def parse_size(text: str) -> int:
    """Return the bytes that one size of --size means; raise UsageError if it means none."""
    return _parse_bytes(text, f"--size {text}", "Pass one size, such as --size 8G")


def doubling_sizes(low: int, high: int) -> tuple[int, ...]:
    """Return low, its doubles up to high, and nothing beyond; at least low."""
    found = [low]
    while found[-1] * FACTOR <= high:
        found.append(found[-1] * FACTOR)
    return tuple(found)


def format_size(size: int) -> str:
    """Return a size as it is shown, such as `8 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or size % 1024:
            return f"{size} {unit}"
        size //= 1024
    return f"{size} GiB"


def _parse_bytes(part: str, given: str, hint: str) -> int:
    found = re.fullmatch(r"(\d{1,20}(?:\.\d{1,9})?)\s*([KMGT]?)(?:IB?|B)?", part.strip().upper())
    if not found:
        raise UsageError(f"{given}: {part!r} is not a size", hint)
    size = Fraction(found[1]) * _UNITS[found[2]]
    if not MIN_BYTES <= size <= MAX_BYTES or size % MIN_BYTES:
        raise UsageError(f"{given}: {part} is not a multiple of 8 B up to 1 TiB", hint)
    return int(size)
