"""What our readers say of the devices of a museum's machine: RDMA, network and PCI.

Each function returns what each reader says, in the expert's form and of the devices that the
expert names. A reader of which no capture has the file is left out.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from plugins.module_utils import netdevs as role_netdevs
from plugins.module_utils import pci as role_pci
from tests.unit.helpers.museum_hardware import full
from tests.unit.helpers.museum_node import MuseumNode

from rdmaprov.discover import collector
from rdmaprov.discover.rails import choose_rails
from rdmaprov.discover.reach import parse_facts
from rdmaprov.facts import devices, pci, pci_links, subnet_port
from rdmaprov.facts.devices import INFINIBAND, NET
from rdmaprov.facts.rails import Port
from rdmaprov.facts.virtual_function import is_virtual_function

Said = dict[str, Any]
_VENDORS = {"nvidia": pci.NVIDIA, "amd": pci.AMD}


def collected(node: MuseumNode) -> dict[str, Any]:
    """Return what discover's collector prints of the node, checked as its answer is."""
    return parse_facts(json.dumps(collector.collect(str(node.root))))


def rails(node: MuseumNode, _wanted: object) -> Said:
    facts = collected(node)
    if any(each["unfit"] and not each["is_smi"] for each in facts["rails"]):
        return {}  # unknown, and said
    chosen, _ = choose_rails(facts)
    return {"discover": [each["device"] for each in chosen]}


def left_out_rails(node: MuseumNode, wanted: Mapping[str, str]) -> Said:
    """Return the devices that are left out; the reasons are for people."""
    _, out = choose_rails(collected(node))
    why = {each.name: each.why for each in out}
    return {"discover": {name: wanted[name] if why.get(name) else "a rail" for name in wanted}}


def firmware(node: MuseumNode, wanted: Mapping[str, str]) -> Said:
    return _of_rdma(node, wanted, "fw_ver", "firmware")


def psid(node: MuseumNode, _wanted: object) -> Said:
    here = devices.read(node.host)
    names = here.names(INFINIBAND)
    found = {here.files.value(f"{INFINIBAND}/{name}/board_id") for name in names} - {None}
    return {"suite": found.pop()} if len(found) == 1 else {}


def link_layer(node: MuseumNode, wanted: Mapping[str, str]) -> Said:
    return _of_rdma(node, wanted, "ports/1/link_layer", "link_layer")


def port_state(node: MuseumNode, wanted: Mapping[str, str]) -> Said:
    said = _of_rdma(node, wanted, "ports/1/state", "state")
    return {
        reader: {name: text.partition(": ")[2].lower() for name, text in of.items()}
        for reader, of in said.items()
    }


def lids(node: MuseumNode, wanted: Mapping[str, list[int]]) -> Said:
    if not _shown(node, wanted, "ports/1/lid"):
        return {}
    ports = {name: subnet_port.read(node.host, name) for name in wanted}
    return {"suite": {name: [port.lid, port.sm_lid] for name, port in ports.items()}}


def rate_gb_s(node: MuseumNode, wanted: Mapping[str, float]) -> Said:
    if not _shown(node, wanted, "ports/1/rate"):
        return {}
    here = devices.read(node.host)
    numbers = {each["device"]: each["gbps"] for each in collected(node)["rails"]}
    return {
        "discover": {name: numbers.get(name) for name in wanted},
        "suite": {name: float(here.port(name, "rate").split()[0]) for name in wanted},
    }


def _of_rdma(node: MuseumNode, wanted: Mapping[str, Any], attribute: str, key: str) -> Said:
    if not _shown(node, wanted, attribute):
        return {}
    here = devices.read(node.host)
    found = {each["device"]: each[key] for each in collected(node)["rails"]}
    paths = {name: f"{INFINIBAND}/{name}/{attribute}" for name in wanted}
    return {
        "role": {name: node.machine.value(path) for name, path in paths.items()},
        "suite": {name: here.files.value(path) for name, path in paths.items()},
        "discover": {name: found.get(name) for name in wanted},
    }


def _shown(node: MuseumNode, wanted: Mapping[str, Any], attribute: str) -> bool:
    return any(attribute in node.hardware.rdma.get(name, {}) for name in wanted)


def numa_nodes(node: MuseumNode, wanted: Mapping[str, int]) -> Said:
    functions = pci.Functions.read(node.host)
    of = {name: node.hardware.pci_of.get(name) or full(name) for name in wanted}
    if not any(node.has(f"{role_pci.DEVICES}/{each}/numa_node") for each in of.values()):
        return {}
    found = {each["device"]: each["numa_node"] for each in collected(node)["rails"]}
    found |= {each["pci"]: each["numa_node"] for each in collected(node)["gpus"]}
    said = {
        "role": {
            name: int(node.machine.value(f"{role_pci.DEVICES}/{address}/numa_node") or -1)
            for name, address in of.items()
        },
        "suite": {name: functions.numa_node(address) for name, address in of.items()},
    }
    if all(name in found for name in wanted):
        said["discover"] = {name: found[name] for name in wanted}
    return said


def pcie(node: MuseumNode, wanted: Mapping[str, Mapping[str, float]]) -> Said:
    """Return the links of functions. The roles read none."""
    shown = [node.hardware.functions.get(full(address), {}) for address in wanted]
    if not all({"current_link_speed", "max_link_speed"} <= each.keys() for each in shown):
        return {}
    found = {}
    for address, of in wanted.items():
        hop = pci_links.hops(node.host, [full(address)])[0]
        every = {
            "speed_gt_s": hop.current.gt_s,
            "width": hop.current.width,
            "max_speed_gt_s": hop.most.gt_s,
            "max_width": hop.most.width,
        }
        found[address] = {key: every[key] for key in of}
    return {"suite": found}


def gpus(node: MuseumNode, wanted: Mapping[str, Any]) -> Said:
    vendor = _VENDORS[wanted["vendor"]]
    if not any(each.get("vendor") == vendor for each in node.hardware.functions.values()):
        return {}
    counts = {
        "role": len(role_pci.gpus(node.machine, (vendor,))),
        "suite": len(pci.Functions.read(node.host).gpus((vendor,))),
        "discover": len(collected(node)["gpus"]),
    }
    return {reader: {**wanted, "count": count} for reader, count in counts.items()}


def vfs(node: MuseumNode, wanted: list[str]) -> Said:
    here = collected(node)["rails"]
    rdma = {each["device"]: each["is_virtual"] for each in here}
    places = [node.hardware.pci_of.get(name, name) for name in wanted]
    if not all(node.has(f"{role_pci.DEVICES}/{each}") for each in places):
        return {}
    netdev_of = {each["device"]: each["netdev"] for each in here}
    netdevs = {name: netdev_of.get(name, name) for name in wanted}
    said = {"role": [name for name in wanted if _is_virtual(node, name)]}
    if all(node.has(f"{NET}/{each}") for each in netdevs.values() if each) and all(
        netdevs.values()
    ):
        said["suite"] = [
            name
            for name in wanted
            if is_virtual_function(node.host, Port(0, netdevs[name], "", ""))
        ]
    # A guest does not see the physical function of its own: these are its rails.
    if all(name in rdma for name in wanted) and any(rdma.values()):
        said["discover"] = [name for name, is_virtual in rdma.items() if is_virtual]
    return said


def _is_virtual(node: MuseumNode, name: str) -> bool:
    return role_pci.Function(node.machine, node.hardware.pci_of.get(name, name)).is_virtual


def bond(node: MuseumNode, wanted: Mapping[str, Any]) -> Said:
    here = devices.read(node.host)
    mode = here.files.value(f"{NET}/{wanted['name']}/bonding/mode")
    if mode is None:
        return {}
    members = {
        "role": role_netdevs.below(node.machine, wanted["name"]),
        "suite": sorted(here.below(wanted["name"])),
    }
    name = {"mode": mode.split()[0]} if "mode" in wanted else {}
    of = {"members"} & set(wanted)
    return {
        reader: {"name": wanted["name"], **name, **({"members": each} if of else {})}
        for reader, each in members.items()
    }


def vlan(node: MuseumNode, wanted: Mapping[str, Any]) -> Said:
    """Return what a VLAN stands on; no reader takes its number."""
    if role_netdevs.kind_of(node.machine, wanted["name"]) != "vlan":
        return {}
    below = {
        "role": role_netdevs.below(node.machine, wanted["name"]),
        "suite": list(devices.read(node.host).below(wanted["name"])),
    }
    return {reader: {**wanted, "parent": ", ".join(names)} for reader, names in below.items()}


def mtu(node: MuseumNode, wanted: Mapping[str, int]) -> Said:
    here = devices.read(node.host)
    if not all("mtu" in node.hardware.netdevs.get(name, {}) for name in wanted):
        return {}
    return {
        "role": {name: int(node.machine.value(f"{NET}/{name}/mtu") or 0) for name in wanted},
        "suite": {name: int(re.sub(r"\D", "", here.netdev(name, "mtu"))) for name in wanted},
    }
