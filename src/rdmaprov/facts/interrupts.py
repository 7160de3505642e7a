"""On which processors a PCI function's interrupts may run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from rdmaprov.facts.devices import PCI
from rdmaprov.facts.host import Host
from rdmaprov.facts.processors import processors
from rdmaprov.facts.text import END, read_files, whole

_NODES = "/sys/devices/system/node"
_IRQ = "/proc/irq/*/smp_affinity_list"


@dataclass(frozen=True)
class Interrupts:
    """The interrupts of a function.

    Args:
        processors: by NUMA node, its processors.
        affinities: by interrupt, the processors that it may run on.
    """

    processors: Mapping[int, frozenset[int]]
    affinities: Mapping[int, frozenset[int]]


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
