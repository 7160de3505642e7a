"""The kernel's lists of processors."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import PCI
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.host import Host
from rdmaprov.facts.text import END, read_files, whole

_NODES = "/sys/devices/system/node"
_IRQ = "/proc/irq/*/smp_affinity_list"


def processors(text: str, where: str) -> frozenset[int]:
    """Return the numbers of a list of the kernel's, such as 0-3,8; none for an empty one."""
    found: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        ends = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if ends is None:
            raise CouldNotTell(f"{where} shows {text.strip()[:60]!r}, not a list of numbers")
        found |= set(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return frozenset(found)


@dataclass(frozen=True)
class Interrupts:
    """The interrupts of a function."""

    processors: Mapping[int, frozenset[int]]
    affinities: Mapping[int, frozenset[int]]  # by interrupt, the processors that it may run on


def read(host: Host, address: str) -> Interrupts:
    """Return a function's interrupts.

    Raises:
        CouldNotTell: the kernel shows no list of processors where it should.
    """
    directory = shlex.quote(f"{PCI}/{address}/msi_irqs")
    listing = whole(host.run(f"ls {directory} 2>&1; echo {END}").stdout, "interrupts")
    own = [int(line) for line in listing.splitlines() if line.isdigit()]
    # All of the node's, so that the command is the same on each node and for each rail.
    files = read_files(host, f"{_NODES}/node*/cpulist", _IRQ)
    nodes = {
        int(match[1]): processors(text, match[0])
        for match, text in files.matching(_NODES + r"/node(\d+)/cpulist")
    }
    paths = {number: f"/proc/irq/{number}/smp_affinity_list" for number in own}
    return Interrupts(
        nodes,
        {
            number: processors(files.must(path), path)
            for number, path in paths.items()
            if files.get(path) is not None  # given back meanwhile
        },
    )
