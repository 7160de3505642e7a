"""NICs and PCI functions of a made-up node."""

import json

from tests.validate.fake_node import FakeNode


def netdev_files(index: str, address: str = "", *, used: bool = True) -> dict[str, str]:
    """Return what /sys has of a network device, by the names of its files."""
    own = {"ifindex": index, "iflink": index, "address": mac(address)}
    state = ("0x1003", "400000", "1") if used else ("0x1002", "-1", "0")
    shown = dict(zip(("flags", "speed", "carrier"), state, strict=True))
    return {"mtu": "9000", "type": "1", "carrier_changes": "2", **own, **shown}


def nic(
    node: FakeNode, netdev: str, way: tuple[str, ...], rdma: str, numa: int, address: str
) -> None:
    """Have a NIC with its devices; an empty address for a port that is not used."""
    place = function(node, way, numa, vendor="0x15b3", kind="0x020000")
    number = str(int(way[-1][5:7], 16))
    used = bool(address)
    node.put_all(f"{place}/net/{netdev}", netdev_files(number, address, used=used))
    node.link(f"/sys/class/net/{netdev}", f"{place}/net/{netdev}")
    node.link(f"{place}/net/{netdev}/device", place)
    port = f"{place}/infiniband/{rdma}/ports/1"
    card = {"fw_ver": "28.43.2026", "board_id": "MT_0000000838"}
    node.put_all(f"{place}/infiniband/{rdma}", card)
    state = ("4: ACTIVE", "5: LinkUp") if used else ("1: DOWN", "3: Disabled")
    link = {"rate": "400 Gb/sec (4X NDR)", "link_layer": "Ethernet", "gid_attrs/ndevs/0": netdev}
    node.put_all(port, {"state": state[0], "phys_state": state[1], **link})
    node.link(f"/sys/class/infiniband/{rdma}", f"{place}/infiniband/{rdma}")
    if used:
        gids(node, rdma, netdev, address)


def gids(node: FakeNode, rdma: str, netdev: str, address: str) -> None:
    """Have the GIDs of a link-local and an IPv4 address, each in both versions."""
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    words = [f"{int(each):02x}" for each in address.split(".")]
    mapped = "0000:0000:0000:0000:0000:ffff:{}{}:{}{}".format(*words)
    local = "fe80:0000:0000:0000:0000:00ff:fe00:0001"
    for index, (gid, kind) in enumerate(
        [(local, "IB/RoCE v1"), (local, "RoCE v2"), (mapped, "IB/RoCE v1"), (mapped, "RoCE v2")]
    ):
        node.put(f"{port}/gids/{index}", gid + "\n")
        node.put(f"{port}/gid_attrs/types/{index}", kind + "\n")
        node.put(f"{port}/gid_attrs/ndevs/{index}", netdev + "\n")
    node.put(f"{port}/gids/4", ":".join(["0000"] * 8) + "\n")


def function(node: FakeNode, way: tuple[str, ...], numa: int, vendor: str, kind: str) -> str:
    place = "/sys/devices/pci" + way[0][:7]
    for depth, address in enumerate(way):
        place = f"{place}/{address}"
        last = depth == len(way) - 1
        values = {
            "vendor": vendor if last else "0x1000",
            "class": kind if last else "0x060400",
            "numa_node": str(numa),
            "current_link_speed": "32.0 GT/s PCIe",
            "current_link_width": "16",
            "max_link_speed": "32.0 GT/s PCIe",
            "max_link_width": "16",
        }
        if not (node.root / f"sys/bus/pci/devices/{address}").is_symlink():
            node.put_all(place, values)
            node.put(f"{place}/config", config_space(bridge=not last))
            node.link(f"/sys/bus/pci/devices/{address}", place)
    if vendor == "0x15b3":
        node.put(f"{place}/msi_irqs/{numa + 100}")
        node.put(f"/proc/irq/{numa + 100}/smp_affinity_list", f"{numa * 32}-{numa * 32 + 3}\n")
        node.put(f"{place}/iommu_group/type", "identity\n")
    return place


def config_space(*, bridge: bool, read_request: int = 5, acs: int = 0x11) -> bytes:
    """Return registers: a PCI Express capability, and ACS of a bridge."""
    space = bytearray(4096)
    space[0x06], space[0x34] = 0x10, 0x40
    space[0x40], space[0x41] = 0x01, 0x60  # power management, then
    space[0x60], space[0x61] = 0x10, 0x00
    space[0x69] = read_request << 4
    space[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")  # AER, then
    space[0x148:0x14C] = ((0x000D if bridge else 0x0019) | 1 << 16).to_bytes(4, "little")
    space[0x14E] = acs if bridge else 0
    return bytes(space)


def mac(address: str) -> str:
    """Return the MAC address of the network device with an IPv4 address."""
    words = [f"{int(each):02x}" for each in address.split(".")] if address else ["00"] * 4
    return ":".join(["02", "00", *words])


def counted(node: FakeNode, netdev: str, rdma: str) -> None:
    """Have counters that a good link has, and what traffic adds to them."""
    names = {f"rx_prio{n}_{what}": 0 for n in range(8) for what in ("packets", "discards")}
    more = {
        "rx_bytes_phy": 10**12,
        "rx_crc_errors_phy": 0,
        "rx_symbol_err_phy": 2,
        "rx_discards_phy": 12,
        "rx_out_of_buffer": 0,
        "tx_prio3_pause": 5,
    }
    body = "".join(f"     {name}: {value}\n" for name, value in {**names, **more}.items())
    node.answer(f"ethtool -S {netdev}", f"NIC statistics:\n{body}")
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    for name in ("symbol_error", "port_rcv_errors"):
        node.put(f"{port}/counters/{name}", "0\n")
    node.put(f"{port}/counters/excessive_buffer_overrun_errors", "N/A (no PMA)\n")
    node.answer(f"ibv_devinfo -d {rdma}", f"hca_id:\t{rdma}\n\t\t\tactive_mtu:\t\t4096 (5)\n")


def qos(node: FakeNode, netdev: str, rdma: str) -> None:
    """Have lossless RoCE on a port, as iproute2 6.1's dcb shows it."""
    entries = [[dscp, dscp >> 3] for dscp in range(64)]
    pfc = [priority == 3 for priority in range(8)]
    shown = {
        "app": {"dscp_prio": entries},
        "pfc": {"pfc_cap": 8, "macsec_bypass": False, "delay": 7, "prio_pfc": pfc},
        "ets": {
            "willing": False,
            "ets_cap": 8,
            "tc_bw": [50, 0, 0, 50, 0, 0, 0, 0],
            "tc_tsa": ["strict" if tc == 6 else "ets" for tc in range(8)],
            "prio_tc": [0, 0, 0, 3, 0, 0, 6, 0],
        },
        "buffer": {
            "prio_buffer": [0, 0, 0, 3, 0, 0, 0, 0],
            "buffer_size": [262144, 0, 0, 524288, 0, 0, 0, 0],
            "total_size": 1048576,
        },
        "dcbx": {"host": True, "ieee": True},
    }
    for name, value in shown.items():
        node.answer(f"dcb -N -j {name} show dev {netdev}", json.dumps(value) + "\n")
    pause = f"Pause parameters for {netdev}:\nAutonegotiate:\toff\nRX:\t\toff\nTX:\t\toff\n\n"
    node.answer(f"ethtool -a {netdev}", pause)
    timeout = "pfc-prevention-tout"
    node.answer(f"ethtool --get-tunable {netdev} {timeout}", f"{timeout}: 8000\n")
    ecn = f"/sys/class/net/{netdev}/ecn"
    for end in ("roce_np", "roce_rp"):
        for priority in range(8):
            node.put(f"{ecn}/{end}/enable/{priority}", f"{int(priority == 3)}\n")
    values = {
        "roce_np/cnp_dscp": 48,
        "roce_np/cnp_802p_prio": 6,
        "roce_np/min_time_between_cnps": 4,
        "roce_rp/rpg_ai_rate": 10,
    }
    for name, value in values.items():
        node.put(f"{ecn}/{name}", f"{value}\n")
    node.put(f"/sys/class/infiniband/{rdma}/tc/1/traffic_class", "")
    node.put(f"/sys/kernel/config/rdma_cm/{rdma}/ports/1/default_roce_tos", "106\n")
    node.put(f"/etc/rdmaprov/roce_qos/{netdev}.json", json.dumps(DESCRIPTION))
    unit = f"rdmaprov-roce-qos@{netdev}.service"
    node.unit(unit)
    node.put(f"/etc/systemd/system/sys-subsystem-net-devices-{netdev}.device.wants/{unit}")


DESCRIPTION = {
    "backend": "auto", "trust": "dscp", "dscp_priorities": {"26": 3, "48": 6},
    "pfc_priorities": [3], "global_pause": False, "priority_tc": {"3": 3, "6": 6},
    "tc_strict": [6], "tc_percent": {"0": 50, "3": 50},
    "buffer_bytes": {"0": 262144, "3": 524288}, "priority_buffer": {"3": 3},
    "cable_length_m": 7, "ecn_priorities": [3], "cnp_dscp": 48, "cnp_priority": 6,
    "dcqcn": {"rp_ai_rate": 10}, "tos": 106, "rdma_cm_mode": "RoCE v2",
    "force_traffic_class": False, "dcbx": "host",
}  # fmt: skip
