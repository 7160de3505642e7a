"""What our readers say of a museum's machine, by key of the expert's facts.

Each function returns what each reader says, in the expert's form; a reader of which no capture has
what it takes is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plugins.module_utils import bluefield as role_bluefield
from plugins.module_utils import nic_firmware
from plugins.module_utils.bootloader import running_arguments
from plugins.module_utils.hugepages import hugetlb
from plugins.module_utils.kmod.parameters import is_loaded
from plugins.module_utils.links import MANAGERS, is_wicked
from plugins.module_utils.ofed import ofed_info, vendor_repository
from plugins.module_utils.qos.dcb import Dcb as RoleDcb
from plugins.module_utils.qos.mlnx_qos import parse as parse_listing
from plugins.module_utils.qos.state import Seen
from tests.unit.helpers import museum_devices
from tests.unit.helpers.museum import Command
from tests.unit.helpers.museum_devices import Said
from tests.unit.helpers.museum_node import MuseumNode

from rdmaprov.facts import bluefield, dcb, firmware, hugepages, link_files, software
from rdmaprov.facts.text import read_files
from rdmaprov.nccl_log import transport
from rdmaprov.nccl_log.events import DeviceList
from rdmaprov.nccl_log.line import parse_message, split_messages
from rdmaprov.nccl_log.matrix import Gdr


def nccl(node: MuseumNode, wanted: Mapping[str, Any]) -> Said:
    logs = [each for each in node.museum.commands if "NCCL" in each.stdout]
    if not logs:
        return {}
    path = Path(node.root) / "nccl.log"
    path.write_text("".join(each.stdout for each in logs))
    matrix = transport.read_matrix([path])
    said = transport.verdict(matrix)
    listed = {name for line in _messages(path) for name in line}
    cuda = str(wanted.get("version")).partition("+")[1:]  # which no site writes
    every = {
        "version": said.nccl_version and said.nccl_version + "".join(cuda),
        "net": "+".join(sorted({each.network for each in matrix.channels})),
        "devices": sorted(listed or set(said.hcas)),
        "gdr": None if said.gdr is Gdr.UNKNOWN else said.gdr is not Gdr.NONE,
    }
    # What this part of a log does not show, it does not contradict.
    read = {key: wanted[key] if every[key] in (None, "", []) else every[key] for key in wanted}
    return {"suite": read} if any(every[key] not in (None, "", []) for key in wanted) else {}


def _messages(path: Path) -> Iterator[list[str]]:
    """Yield the RDMA devices of each line that lists them."""
    for text in path.read_bytes().splitlines():
        for _, _, message in split_messages(text):
            event = parse_message(message)
            if isinstance(event, DeviceList):
                yield [name for device in event.found for name in device.names]


_DRIVER_VERSION = "/sys/module/mlx5_core/version"


def _ports(node: MuseumNode) -> Iterator[tuple[str, Seen | dcb.Dcb]]:
    for command in node.museum.printed("mlnx_qos"):
        if not command.part and "-i" in command.argv:
            netdev = command.argv[command.argv.index("-i") + 1]
            yield "role", parse_listing(_with_unused_classes(command), netdev)
    for netdev in {each.argv[-1] for each in node.museum.printed("dcb") if "-j" in each.argv}:
        seen, shown = RoleDcb(node.machine).read(netdev), dcb.read(node.host, netdev)
        assert seen is not None
        assert shown is not None
        yield from (("role", seen), ("suite", shown))


def _with_unused_classes(command: Command) -> str:
    """Return a listing as `-a`, which the role always gives, completes it.

    Without it mlnx_qos leaves out the classes without a priority; how they are served is unknown,
    and of no effect.
    """
    if "-a" in command.argv:
        return command.stdout
    missing = [tc for tc in range(8) if f"tc: {tc} " not in command.stdout]
    unused = "".join(f"tc: {tc} ratelimit: unlimited, tsa: vendor\n" for tc in missing)
    return command.stdout.replace("tc: 0 ", f"{unused}tc: 0 ", 1)


def _qos(read: Callable[[Any, Any], object]) -> Callable[[MuseumNode, Any], Said]:
    def said(node: MuseumNode, wanted: object) -> Said:
        found: Said = {}
        for reader, port in _ports(node):
            value = read(port, wanted)
            assert found.setdefault(reader, value) == value, "the ports of the machine differ"
        return found

    return said


def _pfc(port: Seen | dcb.Dcb, _wanted: object) -> list[int]:
    if isinstance(port, Seen):
        return [priority for priority, is_on in enumerate(port.pfc) if is_on]
    return sorted(port.pfc)


def _ets(port: Seen | dcb.Dcb, wanted: Mapping[int, Any]) -> dict[int, object]:
    return {tc: port.percent[tc] if port.tsa[tc] == "ets" else port.tsa[tc] for tc in wanted}


def _dscp_map(port: Seen | dcb.Dcb, wanted: Mapping[int, int]) -> dict[int, int | None]:
    entries = dict(port.entries) if isinstance(port, Seen) else port.priorities
    return {dscp: entries.get(dscp) for dscp in wanted}


def _ofed(node: MuseumNode, attribute: str) -> Said:
    found: Said = {}
    for command in node.museum.printed("ofed_info"):
        if "-s" in command.argv:
            found["role"] = getattr(ofed_info.parse(command.stdout), attribute)
            found["suite"] = getattr(software.parse_ofed(command.stdout), attribute)
    if attribute == "version" and not found and node.has(_DRIVER_VERSION):
        found["role"] = node.machine.value(_DRIVER_VERSION)
        found["suite"] = software.modules(node.host)["mlx5_core"].version
    return found


def _queries(node: MuseumNode) -> Iterator[str]:
    parts: dict[str, str] = {}
    for command in node.museum.commands:
        if any(tool in command.line for tool in nic_firmware.TOOLS):
            parts[command.line] = parts.get(command.line, "") + command.stdout
    # Without the head of the list, the columns' names are cut.
    yield from (text for text in parts.values() if "Configurations:" in text)


def _firmware_settings(node: MuseumNode, wanted: Mapping[str, list[Any]]) -> Said:
    """Return [now, next]; each as the expert wrote it if the reader says that it means that."""
    found: dict[str, dict[str, list[Any]]] = {}
    for text in _queries(node):
        role, suite = nic_firmware.parse(text), firmware.parse(text)
        for name, (now, following) in wanted.items():
            if name in role:
                found.setdefault("role", {})[name] = [
                    _meant(nic_firmware.means, role[name].current, now),
                    _meant(nic_firmware.means, role[name].next_boot, following),
                ]
            if name in suite:
                found.setdefault("suite", {})[name] = [
                    _meant(firmware.is_value, suite[name].current, now),
                    _meant(firmware.is_value, suite[name].next_boot, following),
                ]
    return dict(found)


def _meant(means: Callable[[str, Any], bool], shown: str, wanted: object) -> object:
    if wanted is None:
        return None if shown in ("", "N/A") else shown
    return wanted if means(shown, wanted) else shown


def _bluefield_mode(node: MuseumNode, _wanted: object) -> Said:
    names = {True: "nic", False: "dpu"}
    found: Said = {}
    for text in _queries(node):
        owns = role_bluefield.host_owns(nic_firmware.parse(text))
        suites = bluefield.host_owns(firmware.parse(text))
        if owns is not None or suites is not None:
            found = {"role": names.get(owns or False), "suite": names.get(suites or False)}
    return found


def _network_manager(node: MuseumNode, _wanted: object) -> Said:
    found: Said = {}
    role = [name for name, each in MANAGERS.items() if each.runs(node.machine)]
    if role or is_wicked(node.machine):
        found["role"] = role[0].replace("systemd-", "") if role else "wicked"
    files = read_files(node.host, *link_files.PATHS)
    for start, name in (
        ("/etc/netplan/", "netplan"),
        ("/etc/systemd/network/", "networkd"),
        ("/etc/NetworkManager/system-connections/", "NetworkManager"),
        ("/etc/sysconfig/network-scripts/", "NetworkManager"),
        ("/etc/network/", "ifupdown"),
        ("/etc/sysconfig/network/", "wicked"),
    ):
        if any(path.startswith(start) for path in files.texts):
            found.setdefault("suite", name)
    return found


def _hugepages(node: MuseumNode, wanted: Mapping[int, int]) -> Said:
    if not any("hugepages-" in path for path in node.museum.files):
        return {}
    suite = hugepages.read(node.host)
    return {
        "role": {
            kib: sum(pool.pages for pool in hugetlb.pools(node.machine, kib)) for kib in wanted
        },
        "suite": {kib: sum(suite.by_numa_node(kib).values()) for kib in wanted},
    }


def _kernel_arguments(node: MuseumNode, wanted: list[str]) -> Said:
    if not node.has("/proc/cmdline"):
        return {}
    names = tuple(dict.fromkeys(each.partition("=")[0] for each in wanted))
    return {"role": running_arguments(node.machine, names)}


def _peermem(node: MuseumNode, _wanted: object) -> Said:
    if not node.has("/sys/module"):
        return {}
    return {"role": "nvidia_peermem" if is_loaded(node.machine, "nvidia_peermem") else "none"}


def _os(node: MuseumNode, wanted: Mapping[str, str]) -> Said:
    """Return what the role of the vendor's packages takes the distribution for."""
    if not node.has("/etc/os-release"):
        return {}
    name, release, _ = vendor_repository.distribution(node.machine)
    return {"role": {**wanted, "id": name, "version": release}}


READERS: dict[str, Callable[[MuseumNode, Any], Said]] = {
    "rails": museum_devices.rails,
    "left_out_rails": museum_devices.left_out_rails,
    "ofed": lambda node, _: _ofed(node, "flavour"),
    "ofed_version": lambda node, _: _ofed(node, "version"),
    "trust": _qos(lambda port, _: port.trust),
    "pfc": _qos(_pfc),
    "ets": _qos(_ets),
    "dscp_map": _qos(_dscp_map),
    "cable_length_m": _qos(lambda port, _: port.cable_length_m),
    "firmware": museum_devices.firmware,
    "psid": museum_devices.psid,
    "firmware_settings": _firmware_settings,
    "link_layer": museum_devices.link_layer,
    "port_state": museum_devices.port_state,
    "rate_gb_s": museum_devices.rate_gb_s,
    "lids": museum_devices.lids,
    "pcie": museum_devices.pcie,
    "gpus": museum_devices.gpus,
    "numa_nodes": museum_devices.numa_nodes,
    "bluefield_mode": _bluefield_mode,
    "vfs": museum_devices.vfs,
    "bond": museum_devices.bond,
    "vlan": museum_devices.vlan,
    "network_manager": _network_manager,
    "hugepages": _hugepages,
    "kernel_arguments": _kernel_arguments,
    "peermem": _peermem,
    "mtu": museum_devices.mtu,
    "os": _os,
    "nccl": nccl,
}
