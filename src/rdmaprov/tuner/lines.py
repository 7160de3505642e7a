"""Whether NCCL's example tuner plugin reads a file as it looks.

It falls back in silence: an unknown collective is allreduce to it, an unknown algorithm ring, an
unknown protocol simple; a line with another number of fields is left out (github.com/NVIDIA/nccl,
plugins/tuner/example/plugin.c: loadConfig). The role on the node looks for itself
(plugins/module_utils/nccl/tuner.py); a test holds that both say the same.
"""

from __future__ import annotations

import re

_WORDS = (
    ("collective", ("broadcast", "reduce", "allgather", "reducescatter", "allreduce")),
    ("algorithm", ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")),
    ("protocol", ("ll", "ll128", "simple")),
)
_WORD_AT = (0, 3, 4)
_LEAST_FIELDS, _MOST_FIELDS = 8, 10
_LONGEST, _MOST_BYTES = 255, 64 << 10
_MOST_CHANNELS = 64  # MAXCHANNELS of src/include/device.h
_LONGEST_LIBRARY = 254
_LIBRARY = re.compile(r"/?[A-Za-z0-9_.+-]+(?:/[A-Za-z0-9_.+-]+)*")


def is_library(name: str) -> bool:
    """Return whether a text is a plugin's name or path, as NCCL opens it."""
    return len(name) <= _LONGEST_LIBRARY and _LIBRARY.fullmatch(name) is not None


def tuner_file_fault(text: str) -> str:
    """Return the first line that is not read as it looks, and why; empty if there is none."""
    if len(text.encode("utf-8", "surrogateescape")) > _MOST_BYTES:
        return f"it has more than {_MOST_BYTES >> 10} KiB"
    for number, line in enumerate(text.split("\n"), 1):
        if why := _line_fault(line):
            return f"line {number}: {why}"
    return ""


def _line_fault(line: str) -> str:
    if len(line) > _LONGEST:
        return f"more than {_LONGEST} characters, after which the plugin cuts it"
    if not line.isprintable():
        return "a character that does not print"
    if not line or line.startswith("#"):
        return ""
    fields = line.split(",")
    if not _LEAST_FIELDS <= len(fields) <= _MOST_FIELDS:
        return f"{len(fields)} fields, expected {_LEAST_FIELDS} to {_MOST_FIELDS} by commas"
    for at, (what, words) in zip(_WORD_AT, _WORDS, strict=True):
        if fields[at] not in words:
            return f"'{fields[at][:40]}' is no {what} (there are: {', '.join(words)})"
    return _number_fault(fields)


def _number_fault(fields: list[str]) -> str:
    low, high, channels, *others = (fields[1], fields[2], *fields[5:])
    for size in (low, high):
        if not re.fullmatch(r"[0-9]{1,18}", size):
            return f"'{size[:40]}' is no number of bytes"
    if int(low) > int(high):
        return f"from {low} to {high} bytes is no range"
    for number in (channels, *others):
        if not re.fullmatch(r"-1|[0-9]{1,9}", number):
            return f"'{number[:40]}' is no number, and not -1"
    if channels != "-1" and not re.fullmatch(r"[1-9][0-9]?", channels):
        return f"{channels} channels, expected 1 to {_MOST_CHANNELS}, or -1"
    return "" if int(channels) <= _MOST_CHANNELS else f"{channels} channels, NCCL has 64 at most"
