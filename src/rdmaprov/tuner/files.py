"""What a tuning is put into: a file for NCCL's example tuner plugin, and lines for a site.

The plugin falls back in silence: an unknown collective is allreduce to it, an unknown algorithm
ring, an unknown protocol simple; a line with another number of fields is left out
(github.com/NVIDIA/nccl, plugins/tuner/example/plugin.c: loadConfig). The role on the node looks for
itself (plugins/module_utils/nccl/tuner.py); a test holds that both say the same.
"""

import itertools
import math
import re
from collections.abc import Iterator, Sequence

from rdmaprov.bandwidth.rates import format_size
from rdmaprov.tuner.model import Gain
from rdmaprov.tuner.settings import ALGORITHMS, PROTOCOLS

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
# Any pipeline and any registration of buffers (github.com/NVIDIA/nccl, its page of the plugin).
_ANY = "-1"
_HEAD = """\
# For NCCL's example tuner plugin (github.com/NVIDIA/nccl, plugins/tuner/example).
# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered
# As published, the plugin asks for one channel wherever no line matches, of other sizes and other
# collectives too (plugin.cc, pluginGetCollInfo: *nChannels = 1). Use it with 0 there, which is
# NCCL's own choice. Measured on these nodes and ranks only: no other communicator matches.
"""


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


def tuner_file(gains: Sequence[Gain], sizes: Sequence[int], nodes: int, ranks: int) -> str:
    """Return a tuner file with the gains of all-reduces, empty without any.

    A gain counts up to half-way to the sizes beside it, by ratio: there, nothing was measured.

    Args:
        gains: of single sizes; one at most for each.
        sizes: that were measured, in bytes, ascending.
    """
    if not gains:
        return ""
    return _HEAD + "".join(f"{line}\n" for line in _lines(gains, sizes, nodes, ranks))


def _lines(gains: Sequence[Gain], sizes: Sequence[int], nodes: int, ranks: int) -> Iterator[str]:
    bounds = _bounds(sizes)
    for gain in sorted(gains, key=lambda gain: gain.size):
        low, high = bounds[gain.size]
        setting = gain.setting
        yield f"# {format_size(gain.size)}: {words(gain)}"
        fields = (
            "allreduce",
            low,
            high,
            ALGORITHMS[setting.algorithm],
            PROTOCOLS[setting.protocol],
            setting.channels,
            nodes,
            ranks,
            _ANY,
            _ANY,
        )
        yield ",".join(map(str, fields))


def _bounds(sizes: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the least and the most bytes for which each size stands, without overlap."""
    middles = [math.isqrt(one * other) for one, other in itertools.pairwise(sizes)]
    lows = [sizes[0], *(middle + 1 for middle in middles)]
    return dict(zip(sizes, zip(lows, [*middles, sizes[-1]], strict=True), strict=True))


def site_lines(gains: Sequence[Gain]) -> str:
    """Return what to write into a site for a setting of the whole fleet, empty without gains."""
    if not gains:
        return ""
    lines = [f"# {format_size(gain.size)}: {words(gain)}" for gain in gains]
    lines += ["nccl_environment:"]
    lines += [f'  {name}: "{value}"' for name, value in gains[0].setting.environment.items()]
    return "\n".join(lines) + "\n"


def site_tuner(text: str) -> str:
    """Return a tuner file as variables of a site, which the role nccl puts on the nodes."""
    lines = "".join(f"  {line}\n" for line in text.splitlines())
    return f"nccl_tuner_plugin: example\nnccl_tuner_config: |\n{lines}"


def words(gain: Gain) -> str:
    """Return a gain with what it is at least, such as `+12 %, at least +9 %`."""
    return f"+{100 * gain.share:.0f} %, at least +{100 * gain.least:.0f} %"
