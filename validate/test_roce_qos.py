"""Lossless RoCE on each rail: trust, DSCP map, PFC, ETS, buffers, ECN, CNPs, marking.

DCB is read unprivileged. That the marks are on the wire is for test_path.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, congestion, counters, dcb, devices, units
from rdmaprov.facts.dcb import Dcb
from rdmaprov.facts.text import read_files
from rdmaprov.facts.verdict import AFTER_REBOOT, needs_roce, not_applicable, reject, require
from rdmaprov.inventory import Node, Rail

pytestmark = pytest.mark.state

_CM = "/sys/kernel/config/rdma_cm"
_DESCRIPTIONS = "/etc/rdmaprov/roce_qos"
_LLDPAD = ("lldpad.service", "lldpad.socket")


def test_host_or_firmware_decides(host: Host, node: Node, rail: Rail) -> None:
    """Who decides on QoS is as the site says: a firmware that does may undo the rest."""
    netdev, seen = _dcb(host, node, rail)
    require(
        node, netdev, "DCBX", seen="host" if seen.host else "firmware",
        wanted=node.get("roce_qos_dcbx"), variable="roce_qos_dcbx",
        where=f"dcb dcbx show dev {netdev}",
    )  # fmt: skip


def test_trust(host: Host, node: Node, rail: Rail) -> None:
    """The port reads a packet's priority from what the site says."""
    netdev, seen = _dcb(host, node, rail)
    require(
        node, netdev, "trust", seen=seen.trust, wanted=node.get("roce_qos_trust"),
        variable="roce_qos_trust", where=f"dcb app show dev {netdev}",
    )  # fmt: skip


def test_roce_data_rides_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """A packet with the DSCP of RoCE data gets the lossless priority."""
    _rides(host, node, rail, node.get("fabric_roce_dscp"))


def test_cnps_ride_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """A congestion notification packet that arrives gets its own priority."""
    _rides(host, node, rail, node.get("fabric_cnp_dscp"))


def test_other_dscps_ride_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """Every other DSCP gets the site's priority: none of them may ride the lossless one."""
    netdev, seen = _dscp(host, node, rail)
    special = {node.get("fabric_roce_dscp"), node.get("fabric_cnp_dscp")}
    wrong = {
        dscp: (seen.priority_of(dscp), priority)
        for dscp, priority in _map(node).items()
        if dscp not in special and seen.priority_of(dscp) != priority
    }
    if wrong:
        dscp, (has, wanted) = next(iter(wrong.items()))
        more = f" and {len(wrong) - 1} more DSCPs" if len(wrong) > 1 else ""
        reject(
            node, netdev, f"priority of DSCP {dscp}{more}", seen=has, wanted=wanted,
            variable="roce_qos_dscp_priorities", where=f"dcb -N app show dev {netdev} dscp-prio",
        )  # fmt: skip


def test_pfc_only_on_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """PFC is on for the lossless priority and for no other."""
    netdev, seen = _dcb(host, node, rail)
    require(
        node, netdev, "PFC on priorities", seen=sorted(seen.pfc),
        wanted=sorted(node.get("roce_qos_pfc_priorities")), variable="roce_qos_pfc_priorities",
        where=f"dcb pfc show dev {netdev}",
    )  # fmt: skip


def test_global_pause(host: Host, node: Node, rail: Rail) -> None:
    """Global pause is off beside PFC: it would stop every priority."""
    netdev, _ = _dcb(host, node, rail)
    wanted = node.get("roce_qos_global_pause")
    for name, seen in zip(("RX", "TX"), counters.pause(host, netdev), strict=True):
        require(
            node, netdev, f"global pause {name}", seen=seen, wanted=wanted,
            variable="roce_qos_global_pause", where=f"ethtool -a {netdev}",
        )  # fmt: skip


def test_cable_length(host: Host, node: Node, rail: Rail) -> None:
    """The firmware derives the thresholds of PFC from the length of the site's cables."""
    netdev, seen = _dcb(host, node, rail)
    if not seen.pfc and not node.get("roce_qos_pfc_priorities"):
        not_applicable("roce_qos_pfc_priorities: [], so no threshold depends on it")
    require(
        node, netdev, "cable length", seen=seen.cable_length_m,
        wanted=node.get("roce_qos_cable_length_m"), variable="roce_qos_cable_length_m",
        where=f"dcb pfc show dev {netdev} (delay)",
    )  # fmt: skip


def test_priorities_have_their_traffic_class(host: Host, node: Node, rail: Rail) -> None:
    """Each priority is in its traffic class, so the lossless one shares its queue with none."""
    netdev, seen = _dcb(host, node, rail)
    classes = _numbers(node.get("roce_qos_priority_tc"))
    wanted = tuple(classes.get(priority, 0) for priority in range(8))
    require(
        node, netdev, "traffic classes of priorities 0 to 7", seen=seen.classes, wanted=wanted,
        variable="roce_qos_priority_tc", where=f"dcb ets show dev {netdev} prio-tc",
    )  # fmt: skip


def test_traffic_classes_are_served(host: Host, node: Node, rail: Rail) -> None:
    """Each traffic class is strict or shares, as the site says."""
    netdev, seen = _dcb(host, node, rail)
    strict = node.get("roce_qos_tc_strict")
    wanted = tuple("strict" if tc in strict else "ets" for tc in range(8))
    require(
        node, netdev, "service of traffic classes 0 to 7", seen=seen.tsa, wanted=wanted,
        variable="roce_qos_tc_strict", where=f"dcb ets show dev {netdev} tc-tsa",
    )  # fmt: skip


def test_traffic_classes_have_their_share(host: Host, node: Node, rail: Rail) -> None:
    """Each traffic class that shares has its percentage; of a strict one it means nothing."""
    netdev, seen = _dcb(host, node, rail)
    shares = _numbers(node.get("roce_qos_tc_percent"))
    strict = node.get("roce_qos_tc_strict")
    classes = [tc for tc in range(8) if tc not in strict]
    require(
        node, netdev, f"percent of traffic classes {', '.join(map(str, classes))}",
        seen=[seen.percent[tc] for tc in classes], wanted=[shares.get(tc, 0) for tc in classes],
        variable="roce_qos_tc_percent", where=f"dcb ets show dev {netdev} tc-bw",
    )  # fmt: skip


def test_receive_buffers(host: Host, node: Node, rail: Rail) -> None:
    """Receive buffers that the site describes have their size, and their priorities."""
    netdev, seen = _dcb(host, node, rail)
    sizes = _numbers(node.get("roce_qos_buffer_bytes"))
    buffers = _numbers(node.get("roce_qos_priority_buffer"))
    if not sizes and not buffers:
        not_applicable("the site leaves the receive buffers to the firmware")
    if seen.buffer_bytes is None or seen.priority_buffer is None:
        raise CouldNotTell(f"{netdev}: dcb buffer show dev {netdev} shows no receive buffers")
    for what, wanted, has in (
        ("size of receive buffer", sizes, seen.buffer_bytes),
        ("receive buffer of priority", buffers, seen.priority_buffer),
    ):
        for number, value in wanted.items():
            require(
                node, netdev, f"{what} {number}", seen=has[number], wanted=value,
                variable="roce_qos_buffer_bytes, roce_qos_priority_buffer",
                where=f"dcb buffer show dev {netdev}",
            )  # fmt: skip


def test_ecn_on_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """Congestion control reacts to ECN on the site's priorities, at both ends, on no other."""
    netdev, seen = _congestion(host, node, rail)
    if seen.ecn is None:
        not_applicable(f"{netdev}: Linux's own driver has no switch by priority; firmware has")
    wanted = tuple(priority in node.get("roce_qos_ecn_priorities") for priority in range(8))
    for end, flags in seen.ecn.items():
        require(
            node, netdev, f"ECN of priorities 0 to 7 ({end})", seen=flags, wanted=wanted,
            variable="roce_qos_ecn_priorities", where=f"{seen.directory}/{end}/enable",
        )  # fmt: skip


def test_cnps_leave_with_their_dscp(host: Host, node: Node, rail: Rail) -> None:
    """Congestion notification packets leave with the site's DSCP."""
    netdev, seen = _congestion(host, node, rail)
    require(
        node, netdev, "DSCP of CNPs", seen=seen.cnp_dscp, wanted=node.get("fabric_cnp_dscp"),
        variable="fabric_cnp_dscp", where=seen.directory,
    )  # fmt: skip


def test_cnps_leave_with_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """Congestion notification packets leave with the site's priority."""
    netdev, seen = _congestion(host, node, rail)
    require(
        node, netdev, "priority of CNPs", seen=seen.cnp_priority,
        wanted=node.get("fabric_cnp_priority"), variable="fabric_cnp_priority",
        where=seen.directory,
    )  # fmt: skip


def test_dcqcn_parameters(host: Host, node: Node, rail: Rail) -> None:
    """Congestion control runs with the site's parameters."""
    netdev, seen = _congestion(host, node, rail)
    if not node.get("roce_qos_dcqcn"):
        not_applicable("roce_qos_dcqcn: {}")
    for name, value in node.get("roce_qos_dcqcn").items():
        require(
            node, netdev, name, seen=seen.parameter(name), wanted=int(value),
            variable="roce_qos_dcqcn", where=seen.directory,
        )  # fmt: skip


def test_forced_traffic_class(host: Host, node: Node, rail: Rail) -> None:
    """The driver puts into packets what programs ask for, or the site's ToS if that is forced.

    What is forced beats NCCL_IB_TC.
    """
    needs_roce(node, "a traffic class")
    rdma = devices.port(host, rail).require_rdma()
    path = f"{devices.INFINIBAND}/{rdma}/tc/1/traffic_class"
    files = read_files(host, f"{devices.INFINIBAND}/*/tc/1/traffic_class")
    forced = node.get("roce_qos_force_traffic_class")
    text = files.get(path)
    if text is None and not forced:
        not_applicable("only the vendor's driver can force one, and the site does not want it")
    lines = [line for line in (text or "").splitlines() if line.startswith("Global tclass=")]
    seen = lines[0].partition("=")[2].strip() if lines else None
    if not forced and seen in (str(node.get("roce_qos_tos")), None):
        return
    require(
        node, rdma, "forced traffic class", seen=seen,
        wanted=str(node.get("roce_qos_tos")) if forced else "none",
        variable="roce_qos_force_traffic_class", where=path,
    )  # fmt: skip


def test_rdma_cm_marks_with_tos(host: Host, node: Node, rail: Rail) -> None:
    """rdma_cm marks connections with the site's ToS, where it shows that without a change.

    Its directory of a device has to be made to be read, and this suite makes none. On the wire,
    test_path.py has it in any case.
    """
    needs_roce(node, "a ToS")
    rdma = devices.port(host, rail).require_rdma()
    files = read_files(host, f"{_CM}/*/ports/1/default_roce_tos")
    path = f"{_CM}/{rdma}/ports/1/default_roce_tos"
    if files.get(path) is None:
        not_applicable(f"{rdma}: {_CM}/{rdma} is not open; test_path.py proves it on the wire")
    require(
        node, rdma, "ToS of rdma_cm", seen=files.number(path), wanted=node.get("roce_qos_tos"),
        variable="roce_qos_tos", where=path,
    )  # fmt: skip


def test_lldpad_is_off(host: Host, node: Node) -> None:
    """No lldpad runs, or starts at boot: it would overwrite all of this."""
    needs_roce(node, "lldpad's DCB")
    for unit, seen in units.show(host, *_LLDPAD).items():
        if seen.get("ActiveState") in ("active", "activating", "reloading"):
            _reject_lldpad(node, unit, "active", AFTER_REBOOT)
        if seen.get("UnitFileState") in ("enabled", "enabled-runtime"):
            _reject_lldpad(node, unit, "enabled", AFTER_REBOOT)


def test_unit_ran(host: Host, node: Node, rail: Rail) -> None:
    """The unit that sets the rail's QoS has run without an error since the device appeared."""
    netdev, seen = _unit(host, node, rail)
    require(
        node, netdev, "QoS unit", seen=seen.get("ActiveState") or "absent", wanted="active",
        variable="fabric_rails", where=f"systemctl show {_unit_name(netdev)}",
        run=f"journalctl -u {_unit_name(netdev)}",
    )  # fmt: skip


def test_unit_is_enabled_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The unit runs whenever the device appears, as at boot."""
    netdev, seen = _unit(host, node, rail)
    require(
        node, netdev, "QoS unit", seen=seen.get("UnitFileState") or "absent", wanted="enabled",
        variable="fabric_rails", where=f"systemctl show {_unit_name(netdev)}", truth=AFTER_REBOOT,
    )  # fmt: skip


def test_qos_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """What the unit sets at boot is what the site says."""
    needs_roce(node, "QoS")
    netdev = devices.port(host, rail).netdev
    path = f"{_DESCRIPTIONS}/{netdev}.json"
    text = read_files(host, f"{_DESCRIPTIONS}/*.json").get(path)
    try:
        seen = {} if text is None else json.loads(text)
    except ValueError as error:
        raise CouldNotTell(f"{path}: it is no JSON") from error
    for key, variable in _described().items():
        require(
            node, netdev, key, seen=_plain(seen.get(key)), wanted=_plain(node.get(variable)),
            variable=variable, where=path, truth=AFTER_REBOOT,
        )  # fmt: skip


def _described() -> Mapping[str, str]:
    """Return by its key in the description the site's variable."""
    names = (
        "trust", "dscp_priorities", "pfc_priorities", "global_pause", "priority_tc", "tc_strict",
        "tc_percent", "buffer_bytes", "priority_buffer", "cable_length_m", "ecn_priorities",
        "dcqcn", "tos", "rdma_cm_mode", "force_traffic_class", "dcbx",
    )  # fmt: skip
    fabric = {"cnp_dscp": "fabric_cnp_dscp", "cnp_priority": "fabric_cnp_priority"}
    return {**{name: f"roce_qos_{name}" for name in names}, **fabric}


def _plain(value: object) -> object:
    """Return a value as JSON has it: keys are texts there."""
    if isinstance(value, Mapping):
        return {str(key): str(each) for key, each in sorted(value.items(), key=lambda i: str(i[0]))}
    return sorted(map(str, value)) if isinstance(value, (list, tuple)) else value


def _dcb(host: Host, node: Node, rail: Rail) -> tuple[str, Dcb]:
    """Return a rail's network device and DCB."""
    needs_roce(node, "RoCE QoS")
    here = devices.read(host)
    port = devices.port_of(here, rail)
    seen = dcb.read(host, port.netdev)
    if seen is not None:
        return port.netdev, seen
    if devices.is_virtual_function(host, port.netdev):
        not_applicable(f"{port.netdev} is a virtual function, whose port belongs to the physical")
    raise CouldNotTell(f"{port.netdev}: it has no DCB; is its driver loaded?")


def _dscp(host: Host, node: Node, rail: Rail) -> tuple[str, Dcb]:
    netdev, seen = _dcb(host, node, rail)
    if node.get("roce_qos_trust") != "dscp":
        not_applicable("roce_qos_trust: pcp, so no DSCP has a priority")
    return netdev, seen


def _rides(host: Host, node: Node, rail: Rail, dscp: int) -> None:
    netdev, seen = _dscp(host, node, rail)
    require(
        node, netdev, f"priority of DSCP {dscp}", seen=seen.priority_of(dscp),
        wanted=_map(node)[dscp], variable="roce_qos_dscp_priorities",
        where=f"dcb -N app show dev {netdev} dscp-prio",
    )  # fmt: skip


def _map(node: Node) -> dict[int, int]:
    """Return the priority of each DSCP: the site's, else its upper three bits."""
    given = _numbers(node.get("roce_qos_dscp_priorities"))
    return {dscp: given.get(dscp, dscp >> 3) for dscp in range(64)}


def _numbers(values: Mapping[object, object]) -> dict[int, int]:
    """Return a map of numbers; a site's YAML and templates may have them as texts."""
    return {int(str(key)): int(str(value)) for key, value in values.items()}


def _congestion(host: Host, node: Node, rail: Rail) -> tuple[str, congestion.Congestion]:
    needs_roce(node, "ECN")
    port = devices.port(host, rail)
    seen = congestion.read(host, port.netdev, port.pci)
    if seen is None:
        not_applicable(
            f"{port.netdev}: its driver shows no congestion control; the firmware's own settings "
            "count (mlx5_firmware_settings)"
        )
    return port.netdev, seen


def _unit_name(netdev: str) -> str:
    return f"rdmaprov-roce-qos@{units.escaped(netdev)}.service"


def _unit(host: Host, node: Node, rail: Rail) -> tuple[str, Mapping[str, str]]:
    needs_roce(node, "QoS")
    netdev = devices.port(host, rail).netdev
    name = _unit_name(netdev)
    return netdev, units.show(host, name)[name]


def _reject_lldpad(node: Node, unit: str, seen: str, truth: str) -> None:
    reject(
        node, unit, "unit", seen=seen, wanted="off", variable="roce_qos_lldpad",
        where=f"systemctl show {unit}", truth=truth,
        run="systemctl mask --now lldpad.service lldpad.socket",
    )  # fmt: skip
