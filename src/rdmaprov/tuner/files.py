"""What a tuning is put into: a file for NCCL's example tuner plugin, and lines for a site."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from rdmaprov.bandwidth.sizes import format_size
from rdmaprov.tuner.model import Gain
from rdmaprov.tuner.settings import ALGORITHMS, PROTOCOLS

# Any pipeline and any registration of buffers (github.com/NVIDIA/nccl, its page of the plugin).
_ANY = "-1"
_HEAD = """\
# For NCCL's example tuner plugin (github.com/NVIDIA/nccl, plugins/tuner/example).
# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,registered
# As published, the plugin asks for one channel wherever no line matches, of other sizes and other
# collectives too (plugin.cc, pluginGetCollInfo: *nChannels = 1). Use it with 0 there, which is
# NCCL's own choice. Measured on these nodes and ranks only: no other communicator matches.
"""


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
