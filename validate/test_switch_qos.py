"""QoS of the switch at each RoCE rail, as it announces it by LLDP (DCBX of IEEE 802.1Q).

What a switch does not announce is not verified, and skipped with the reason. That packets of full
size pass it is for test_path.py.
"""

from collections.abc import Iterable

import pytest
from testinfra.host import Host

from rdmaprov.facts import lldp_dcbx
from rdmaprov.facts.lldp_dcbx import AnnouncedEts
from rdmaprov.facts.lldp_unit import APPLICATIONS, ETS, FRAME, PFC
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate import neighbor
from rdmaprov.validate.neighbor import PortNeighbor
from rdmaprov.validate.verdict import needs_roce, numbers

pytestmark = pytest.mark.links

# IBTA, annexes A16 and A17: RoCE v1's Ethertype, RoCE v2's UDP port.
_ROCE_V1, _ROCE_V2 = 0x8915, 4791
# Two addresses and a type. IEEE 802.3 counts four more bytes, the check sequence; old lldpd did
# not, and a switch that counts them announces more.
_HEADER_BYTES, _TAG_BYTES = 14, 4
_LAST_CLASS = 7


def test_switch_has_pfc_on_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """The switch announces PFC for the lossless priority and no other."""
    needs_roce(node, "PFC")
    for each in neighbor.of_rail(host, node, rail):
        pfc = each.announced(each.seen.pfc, PFC)
        wanted = sorted(node.get("roce_qos_pfc_priorities"))
        setting = each.setting(f"PFC of {each.seen.label} is on for", "roce_qos_pfc_priorities")
        if list(pfc.priorities) == wanted:
            continue
        has = f"priority {_listed(pfc.priorities)}"
        if node.get("roce_qos_dcbx") == "firmware" and not pfc.willing:
            has += ", which the NIC's firmware takes over (roce_qos_dcbx)"
        setting.reject(has, f"priority {_listed(wanted)}")


def test_switch_has_bandwidth_for_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """The switch announces a traffic class, with bandwidth, for the lossless priorities alone.

    The share is compared only where the site writes shares: a switch may well have others.
    """
    needs_roce(node, "ETS")
    for each in neighbor.of_rail(host, node, rail):
        ets = each.announced(each.seen.ets, ETS)
        for priority in sorted(node.get("roce_qos_pfc_priorities")):
            _judge_class(each, ets, priority)
            _judge_share(each, ets, priority)


def test_switch_maps_roce_to_its_priority(host: Host, node: Node, rail: Rail) -> None:
    """The switch announces the site's priorities for RoCE and for CNPs, as far as any."""
    needs_roce(node, "an application priority")
    wanted = _applications(node)
    for each in neighbor.of_rail(host, node, rail):
        table = each.announced(each.seen.applications, APPLICATIONS)
        ours = {(one.selector, one.protocol): one.priority for one in table}
        if not ours.keys() & wanted.keys():
            each.skip("priority of RoCE")
        for key in sorted(ours.keys() & wanted.keys()):
            variable, what = wanted[key]
            each.setting(f"priority of {what} on {each.seen.label}", variable).require(
                ours[key], node.get(variable)
            )


def test_switch_takes_full_frames(host: Host, node: Node, rail: Rail) -> None:
    """The largest frame that the switch announces holds a packet of the site's MTU."""
    needs_roce(node, "LLDP's frame size")
    least = node.get("fabric_mtu_bytes") + _HEADER_BYTES + rail.vlan * _TAG_BYTES
    for each in neighbor.of_rail(host, node, rail):
        size = each.announced(each.seen.max_frame_bytes, FRAME)
        if size < least:
            setting = each.setting(f"largest frame of {each.seen.label}", "fabric_mtu_bytes")
            setting.reject(f"{size} bytes", f"at least {least}")


def _judge_class(each: PortNeighbor, ets: AnnouncedEts, priority: int) -> None:
    """Fail if a lossless priority shares its traffic class with a lossy one."""
    number = ets.classes[priority]
    if number > _LAST_CLASS:
        each.skip(f"traffic class of priority {priority}")
    lossless = each.node.get("roce_qos_pfc_priorities")
    lossy = [p for p in range(8) if ets.classes[p] == number and p not in lossless]
    if lossy:
        name = f"traffic class of priority {priority} on {each.seen.label}"
        each.setting(name, "roce_qos_priority_tc").reject(
            f"{number}, which priority {_listed(lossy)} uses too", "one without lossy priorities"
        )


def _judge_share(each: PortNeighbor, ets: AnnouncedEts, priority: int) -> None:
    """Fail if a lossless priority has no bandwidth, or another share than the site writes."""
    number, node = ets.classes[priority], each.node
    if ets.services[number] != "ets":
        return
    name = f"bandwidth of priority {priority} on {each.seen.label}"
    setting = each.setting(name, "roce_qos_tc_percent")
    if ets.percent[number] == 0:
        setting.reject("0 %", "more")
    own = numbers(node.get("roce_qos_priority_tc")).get(priority, 0)
    share = numbers(node.get("roce_qos_tc_percent")).get(own)
    if share is not None and "roce_qos_tc_percent" in node.written:
        setting.require(f"{ets.percent[number]} %", f"{share} %")


def _applications(node: Node) -> dict[tuple[int, int], tuple[str, str]]:
    """Return what a switch may announce of RoCE: the variable with its priority, and its name."""
    data, notice = "fabric_lossless_priority", "fabric_cnp_priority"
    roce, cnp = node.get("fabric_roce_dscp"), node.get("fabric_cnp_dscp")
    return {
        (lldp_dcbx.ETHERTYPE, _ROCE_V1): (data, "RoCE v1"),
        (lldp_dcbx.UDP_PORT, _ROCE_V2): (data, "RoCE v2 (UDP port 4791)"),
        (lldp_dcbx.ANY_PORT, _ROCE_V2): (data, "RoCE v2 (port 4791)"),
        (lldp_dcbx.DSCP, cnp): (notice, f"DSCP {cnp}"),
        (lldp_dcbx.DSCP, roce): (data, f"DSCP {roce}"),
    }


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
