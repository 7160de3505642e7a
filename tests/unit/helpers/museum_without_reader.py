"""Facts of the museum that none of our readers takes, and why."""

from __future__ import annotations

from tests.unit.helpers.museum import Museum

NEVER = {
    "gids": "free text, for people: an address's GID is looked up, never listed",
    "buffer_manual": "no check and no role asks who sized the receive buffers",
}
_DEVICE = "readers ask the RDMA device in sysfs, which no capture here shows"
_LINK = "readers ask the PCI function in sysfs, which no capture here shows"
_RELEASE = "the role reads /etc/os-release"
_OFED = "ofed_info -s names the vendor's, and was not captured"
# By key, and the program that says it to people and is asked by none of ours.
NO_READER = {
    ("firmware", "dmesg"): _DEVICE,
    ("firmware", "ethtool"): _DEVICE,
    ("firmware", "flint"): _DEVICE,
    ("psid", "ethtool"): _DEVICE,
    ("psid", "flint"): _DEVICE,
    ("pcie", "dmesg"): _LINK,
    ("pcie", "mlxlink"): _LINK,
    ("pcie", "lspci"): "present and largest link are read together; one of them is not shown",
    ("bond", "ip"): "a bond's ports and mode are in sysfs, which no capture here shows",
    ("link_layer", "lspci"): _DEVICE,
    ("link_layer", "ibdev2netdev"): _DEVICE,
    ("link_layer", "mst"): _DEVICE,
    ("link_layer", "rdma"): _DEVICE,
    ("link_layer", "cat"): _DEVICE,
    ("port_state", "ip"): _DEVICE,
    ("os", "lsb_release"): _RELEASE,
    ("os", "uname"): _RELEASE,
    ("ofed", "ethtool"): _OFED,
    ("ofed", "ibstat"): _OFED,
    ("ofed", "rpm"): _OFED,
}


def reason(machine: Museum, key: str) -> str:
    """Return why a fact of a machine has no reader; empty if nothing says so."""
    programs = {each.argv[0].rpartition("/")[2] for each in machine.commands}
    general = [why for (of, program), why in NO_READER.items() if of == key and program in programs]
    return NEVER.get(key) or machine.not_read.get(key) or next(iter(general), "")
