"""The ports that a rail's network device stands on: those of a bond, that below a VLAN.

What belongs to a port (DCB, congestion control, PCI function, counters, carrier, speed) is asked of
these; what belongs to the rail (addresses, MTU, GIDs) of the rail's own devices.
"""

from dataclasses import replace

from rdmaprov.facts import devices, rails
from rdmaprov.facts.devices import NET, Devices
from rdmaprov.facts.host import Host
from rdmaprov.facts.rails import NoDevice, Port
from rdmaprov.inventory import Rail

# Linux Documentation/networking/bonding.rst: modes in which a single port carries the data.
_ONE_PORT = ("active-backup",)


def read(host: Host, rail: Rail) -> tuple[Port, ...]:
    """Return a rail's ports on a node, as `ports_of` does."""
    return ports_of(devices.read(host), rail)


def ports_of(here: Devices, rail: Rail) -> tuple[Port, ...]:
    """Return a rail's ports, each with its own PCI address and the rail's RDMA device.

    Raises:
        NoDevice: the rail's network device, or a bond's port, is not there.
    """
    port = rails.port_of(here, rail)
    if not port.netdev:
        return (port,)
    found = []
    for name in with_below(here, port.netdev):
        if here.below(name):
            continue
        if here.files.value(f"{NET}/{name}/bonding/mode"):
            raise NoDevice(f"rail {rail.index}: {name} has no port ({NET}/{name}/bonding/slaves)")
        # A partition's interface is the port's, wherever the kernel puts it in its tree.
        pci = here.pci_of(f"{NET}/{port.parent or name}")
        found.append(replace(port, netdev=name, pci=pci[-1] if pci else ""))
    return tuple(found)


def with_below(here: Devices, netdev: str) -> tuple[str, ...]:
    """Return a network device and all that it stands on, each once."""
    found = [netdev]
    for name in here.below(netdev):
        found += with_below(here, name)
    return tuple(dict.fromkeys(found))


def vlan_parents(here: Devices, netdev: str) -> tuple[str, ...]:
    """Return what a VLAN is on, and what that is on if it is a VLAN, too."""
    if here.files.value(f"{NET}/{netdev}/bonding/slaves") is not None:
        return ()
    return tuple(each for name in here.below(netdev) for each in (name, *vlan_parents(here, name)))


def carrying(here: Devices, netdev: str) -> int:
    """Return how many of a rail's ports carry data at the same time."""
    stack = with_below(here, netdev)
    modes = [here.files.value(f"{NET}/{name}/bonding/mode") or "" for name in stack]
    if any(mode.partition(" ")[0] in _ONE_PORT for mode in modes):
        return 1
    return sum(not here.below(name) for name in stack)
