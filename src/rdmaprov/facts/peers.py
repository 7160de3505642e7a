"""What reaches GPUs below a PCIe switch without the processor: NICs, other GPUs, NVMe drives."""

from collections.abc import Iterable, Mapping
from itertools import chain

from rdmaprov.facts import devices, lower_ports, pci
from rdmaprov.facts.host import Host
from rdmaprov.facts.rails import way_to
from rdmaprov.inventory import Rail

Way = list[str]


def between(one: Way, other: Way) -> Way:
    """Return the bridges between two functions that are below one switch; none if they are not.

    The bridge that both are below is not between them: an upstream port redirects nothing.

    Args:
        one: PCI addresses from the root port to a function.
    """
    shared = 0
    while shared < min(len(one), len(other)) - 1 and one[shared] == other[shared]:
        shared += 1
    return [] if shared == 0 else one[shared:-1] + other[shared:-1]


def ways_to_nics(host: Host, rails: Iterable[Rail]) -> dict[str, Way]:
    """Return by PCI address the way to each port of rails; ports that are not on PCI are none."""
    here = devices.read(host)
    ports = chain.from_iterable(lower_ports.ports_of(here, rail) for rail in rails)
    ways = [way_to(here, port) for port in ports]
    return {way[-1]: way for way in ways if way}


def ways_to_gpus(host: Host) -> dict[str, Way]:
    """Return by PCI address the way to each GPU."""
    return _ways(host, pci.Functions.read(host).gpus())


def ways_to_drives(host: Host) -> dict[str, Way]:
    """Return by PCI address the way to each NVMe drive."""
    return _ways(host, pci.Functions.read(host).nvme_drives())


def bridges(gpus: Mapping[str, Way], others: Mapping[str, Way]) -> tuple[Way, set[str]]:
    """Return the bridges from GPUs to others below the same switch, and what is at their ends."""
    found: set[str] = set()
    ends: set[str] = set()
    for gpu, way in gpus.items():
        for other, its_way in others.items():
            on_the_way = between(way, its_way) if other != gpu else []
            found.update(on_the_way)
            ends.update((gpu, other) if on_the_way else ())
    return sorted(found), ends


def _ways(host: Host, addresses: Iterable[str]) -> dict[str, Way]:
    here = devices.read(host)
    return {each: here.pci_of(f"{devices.PCI}/{each}") for each in addresses}
