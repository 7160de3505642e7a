"""The file of NCCL's tuner plugin, as the plugin reads it: without comments and empty lines.

Source: github.com/NVIDIA/nccl, plugins/tuner/example/plugin.c, loadConfig.
"""

from __future__ import annotations

from rdmaprov.facts.host import Host
from rdmaprov.facts.text import read_files

PATH = "/etc/nccl_tuner.conf"


def read(host: Host) -> tuple[str, ...] | None:
    """Return the lines that count, None if there is no file.

    Raises:
        CouldNotTell: it cannot be read.
    """
    text = read_files(host, PATH).get(PATH)
    return None if text is None else effective(text)


def effective(text: str) -> tuple[str, ...]:
    """Return the lines that count: the first one that fits a collective is taken."""
    return tuple(line for line in text.split("\n") if line and not line.startswith("#"))
