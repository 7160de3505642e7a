"""Lossless RoCE on each rail: trust, DSCP map, PFC, ETS, buffers.

DCB is read unprivileged.
"""

from collections.abc import Iterator

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, bluefield, counters, dcb, devices, lower_ports
from rdmaprov.facts.dcb import Dcb
from rdmaprov.facts.virtual_function import is_virtual_function
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, needs_roce, not_applicable, numbers

pytestmark = pytest.mark.state


def test_host_or_firmware_decides(host: Host, node: Node, rail: Rail) -> None:
    """The host or the firmware controls DCBX, as the site states; firmware may undo the rest."""
    for netdev, seen in _dcb(host, node, rail):
        where = f"dcb dcbx show dev {netdev}"
        Setting(node, netdev, "DCBX", "roce_qos_dcbx", where=where).require(
            "host" if seen.host else "firmware", node.get("roce_qos_dcbx")
        )


def test_trust(host: Host, node: Node, rail: Rail) -> None:
    """The port trusts DSCP or PCP, as the site states."""
    for netdev, seen in _dcb(host, node, rail):
        where = f"dcb app show dev {netdev}"
        Setting(node, netdev, "trust", "roce_qos_trust", where=where).require(
            seen.trust, node.get("roce_qos_trust")
        )


def test_roce_data_rides_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """Packets with the RoCE DSCP get the lossless priority."""
    _rides(host, node, rail, node.get("fabric_roce_dscp"))


def test_cnps_ride_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """Congestion notification packets (CNPs) get their own priority on arrival."""
    _rides(host, node, rail, node.get("fabric_cnp_dscp"))


def test_other_dscps_ride_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """Every other DSCP gets the site's priority, and none the lossless priority."""
    for netdev, seen in _dscp(host, node, rail):
        special = {node.get("fabric_roce_dscp"), node.get("fabric_cnp_dscp")}
        wrong = {
            dscp: (seen.priority_of(dscp), priority)
            for dscp, priority in _map(node).items()
            if dscp not in special and seen.priority_of(dscp) != priority
        }
        if wrong:
            dscp, (has, wanted) = next(iter(wrong.items()))
            more = f" and {len(wrong) - 1} more DSCPs" if len(wrong) > 1 else ""
            where = f"dcb -N app show dev {netdev} dscp-prio"
            setting = Setting(
                node, netdev, f"priority of DSCP {dscp}{more}", "roce_qos_dscp_priorities", where
            )
            setting.reject(has, wanted)


def test_pfc_only_on_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """PFC is on for the lossless priority and no other."""
    for netdev, seen in _dcb(host, node, rail):
        where = f"dcb pfc show dev {netdev}"
        setting = Setting(node, netdev, "PFC is on for priority", "roce_qos_pfc_priorities", where)
        setting.require(sorted(seen.pfc), sorted(node.get("roce_qos_pfc_priorities")))


def test_global_pause(host: Host, node: Node, rail: Rail) -> None:
    """Global pause is off: it would stop every priority."""
    for netdev, _ in _dcb(host, node, rail):
        wanted = node.get("roce_qos_global_pause")
        for name, seen in zip(("RX", "TX"), counters.pause(host, netdev), strict=True):
            where = f"ethtool -a {netdev}"
            setting = Setting(node, netdev, f"global pause {name}", "roce_qos_global_pause", where)
            setting.require(seen, wanted)


def test_cable_length(host: Host, node: Node, rail: Rail) -> None:
    """The cable length, from which PFC thresholds of the site's buffers follow, is the site's."""
    for netdev, seen in _dcb(host, node, rail):
        if not (node.get("roce_qos_buffer_bytes") or node.get("roce_qos_priority_buffer")):
            not_applicable(
                "the site leaves the buffers to the firmware (roce_qos_buffer_bytes, "
                "roce_qos_priority_buffer), which takes no notice of the cable length"
            )
        where = f"dcb pfc show dev {netdev} (delay)"
        setting = Setting(node, netdev, "cable length", "roce_qos_cable_length_m", where)
        setting.require(seen.cable_length_m, node.get("roce_qos_cable_length_m"))


def test_priorities_have_their_traffic_class(host: Host, node: Node, rail: Rail) -> None:
    """Each priority is in its traffic class; the lossless priority has a queue of its own."""
    for netdev, seen in _dcb(host, node, rail):
        classes = numbers(node.get("roce_qos_priority_tc"))
        wanted = tuple(classes.get(priority, 0) for priority in range(8))
        name = "traffic classes of priorities 0 to 7 are"
        setting = Setting(
            node, netdev, name, "roce_qos_priority_tc", f"dcb ets show dev {netdev} prio-tc"
        )
        setting.require(seen.classes, wanted)


def test_traffic_classes_are_served(host: Host, node: Node, rail: Rail) -> None:
    """Each traffic class is strict or weighted (ETS), as the site states."""
    for netdev, seen in _dcb(host, node, rail):
        strict = node.get("roce_qos_tc_strict")
        wanted = tuple("strict" if tc in strict else "ets" for tc in range(8))
        name, where = "service of traffic classes 0 to 7", f"dcb ets show dev {netdev} tc-tsa"
        setting = Setting(node, netdev, name, "roce_qos_tc_strict", where)
        setting.require(seen.tsa, wanted)


def test_traffic_classes_have_their_share(host: Host, node: Node, rail: Rail) -> None:
    """Each ETS traffic class has its share of the bandwidth."""
    for netdev, seen in _dcb(host, node, rail):
        shares = numbers(node.get("roce_qos_tc_percent"))
        strict = node.get("roce_qos_tc_strict")
        classes = [tc for tc in range(8) if tc not in strict]
        name = f"percent of traffic classes {', '.join(map(str, classes))}"
        setting = Setting(
            node, netdev, name, "roce_qos_tc_percent", f"dcb ets show dev {netdev} tc-bw"
        )
        setting.require([seen.shares[tc] for tc in classes], [shares.get(tc, 0) for tc in classes])


def test_receive_buffers(host: Host, node: Node, rail: Rail) -> None:
    """Receive buffers have the site's sizes and priorities."""
    for netdev, seen in _dcb(host, node, rail):
        sizes = numbers(node.get("roce_qos_buffer_bytes"))
        buffers = numbers(node.get("roce_qos_priority_buffer"))
        if not sizes and not buffers:
            not_applicable("the site leaves receive buffers to the firmware")
        if seen.buffer_bytes is None or seen.priority_buffer is None:
            raise CouldNotTell(f"{netdev}: dcb buffer show dev {netdev} shows no receive buffers")
        for what, wanted, has in (
            ("size of receive buffer", sizes, seen.buffer_bytes),
            ("receive buffer of priority", buffers, seen.priority_buffer),
        ):
            for number, value in wanted.items():
                name, where = f"{what} {number}", f"dcb buffer show dev {netdev}"
                setting = Setting(
                    node, netdev, name, "roce_qos_buffer_bytes, roce_qos_priority_buffer", where
                )
                setting.require(has[number], value)


def _dcb(host: Host, node: Node, rail: Rail) -> Iterator[tuple[str, Dcb]]:
    """Yield each of a rail's ports and its DCB: a bond and a VLAN have none themselves."""
    needs_roce(node, "RoCE QoS")
    here = devices.read(host)
    for port in lower_ports.ports_of(here, rail):
        bluefield.require_host_owns(host, here, port.netdev)
        seen = dcb.read(host, port.netdev)
        if seen is not None:
            yield port.netdev, seen
        elif is_virtual_function(host, port):
            not_applicable(
                f"{port.netdev} is a virtual function; its physical function owns the port"
            )
        else:
            raise CouldNotTell(f"{port.netdev} has no DCB: its driver may not be loaded")


def _dscp(host: Host, node: Node, rail: Rail) -> Iterator[tuple[str, Dcb]]:
    for netdev, seen in _dcb(host, node, rail):
        if node.get("roce_qos_trust") != "dscp":
            not_applicable("roce_qos_trust: pcp, which ignores DSCP")
        yield netdev, seen


def _rides(host: Host, node: Node, rail: Rail, dscp: int) -> None:
    for netdev, seen in _dscp(host, node, rail):
        name, where = f"priority of DSCP {dscp}", f"dcb -N app show dev {netdev} dscp-prio"
        setting = Setting(node, netdev, name, "roce_qos_dscp_priorities", where)
        setting.require(seen.priority_of(dscp), _map(node)[dscp])


def _map(node: Node) -> dict[int, int]:
    """Return the priority of each DSCP: the site's, else its upper three bits."""
    given = numbers(node.get("roce_qos_dscp_priorities"))
    return {dscp: given.get(dscp, dscp >> 3) for dscp in range(64)}
