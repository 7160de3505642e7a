"""Lossless RoCE on each rail: ECN, CNPs, ToS marking, and the unit that restores them at boot.

That the marks are on the wire is for test_path.py.
"""

import json
import re
from collections.abc import Mapping

import pytest
from testinfra.host import Host

from rdmaprov.facts import CouldNotTell, bluefield, congestion, devices, lower_ports, rails, units
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import AFTER_REBOOT, RUNNING, Setting, needs_roce, not_applicable

pytestmark = pytest.mark.state

_CM = "/sys/kernel/config/rdma_cm"
_DESCRIPTIONS = "/etc/rdmaprov/roce_qos"
_LLDPAD = ("lldpad.service", "lldpad.socket")


def test_ecn_on_lossless_priority(host: Host, node: Node, rail: Rail) -> None:
    """Congestion control reacts to ECN on exactly the site's priorities, at both ends."""
    wanted = tuple(priority in node.get("roce_qos_ecn_priorities") for priority in range(8))
    for netdev, seen in _congestion(host, node, rail):
        if seen.ecn is None:
            not_applicable(f"{netdev}: the inbox driver does not show ECN per priority")
        for end, flags in seen.ecn.items():
            name, where = f"ECN of priorities 0 to 7 ({end})", f"{seen.directory}/{end}/enable"
            setting = Setting(node, netdev, name, "roce_qos_ecn_priorities", where)
            setting.require(flags, wanted)


def test_cnps_leave_with_their_dscp(host: Host, node: Node, rail: Rail) -> None:
    """CNPs are sent with the site's DSCP."""
    for netdev, seen in _congestion(host, node, rail):
        Setting(node, netdev, "DSCP of CNPs", "fabric_cnp_dscp", where=seen.directory).require(
            seen.cnp_dscp, node.get("fabric_cnp_dscp")
        )


def test_cnps_leave_with_their_priority(host: Host, node: Node, rail: Rail) -> None:
    """CNPs are sent with the site's priority."""
    for netdev, seen in _congestion(host, node, rail):
        Setting(
            node, netdev, "priority of CNPs", "fabric_cnp_priority", where=seen.directory
        ).require(seen.cnp_priority, node.get("fabric_cnp_priority"))


def test_dcqcn_parameters(host: Host, node: Node, rail: Rail) -> None:
    """DCQCN runs with the site's parameters."""
    for netdev, seen in _congestion(host, node, rail):
        if not node.get("roce_qos_dcqcn"):
            not_applicable("roce_qos_dcqcn: {}")
        for name, value in node.get("roce_qos_dcqcn").items():
            Setting(node, netdev, name, "roce_qos_dcqcn", where=seen.directory).require(
                seen.parameter(name), int(value)
            )


def test_forced_traffic_class(host: Host, node: Node, rail: Rail) -> None:
    """The driver uses the programs' traffic class, or the site's ToS where that is forced.

    What is forced beats NCCL_IB_TC.
    """
    needs_roce(node, "a traffic class")
    rdma = rails.port(host, rail).require_rdma()
    path = f"{devices.INFINIBAND}/{rdma}/tc/1/traffic_class"
    files = read_files(host, path)
    forced = node.get("roce_qos_force_traffic_class")
    text = files.get(path)
    if text is None and not forced:
        not_applicable(
            "only the vendor's driver can force a traffic class, and the site does not ask for it"
        )
    lines = [line for line in (text or "").splitlines() if line.startswith("Global tclass=")]
    seen = lines[0].partition("=")[2].strip() if lines else None
    tos = str(node.get("roce_qos_tos"))
    setting = Setting(
        node, rdma, "forced traffic class", "roce_qos_force_traffic_class", where=path
    )
    for line in (text or "").splitlines():
        rule = re.search(r"tclass=(\d+)", line)  # of some packets, by their addresses
        if line not in lines and rule and rule[1] != tos:
            setting.reject(line, f"tclass={tos}, or no rule")
    if forced or seen not in (tos, None):
        setting.require(seen, tos if forced else "none")


def test_rdma_cm_marks_with_tos(host: Host, node: Node, rail: Rail) -> None:
    """rdma_cm marks connections with the site's ToS, where it can be read without a change.

    Its directory of a device has to be made to be read, and this suite makes none. On the wire,
    test_path.py has it in any case.
    """
    needs_roce(node, "a ToS")
    rdma = rails.port(host, rail).require_rdma()
    files = read_files(host, f"{_CM}/*/ports/1/default_roce_tos")
    path = f"{_CM}/{rdma}/ports/1/default_roce_tos"
    if files.get(path) is None:
        not_applicable(
            f"{rdma}: {_CM}/{rdma} does not exist; test_path.py verifies the ToS on the wire"
        )
    Setting(node, rdma, "ToS of rdma_cm", "roce_qos_tos", where=path).require(
        files.number(path), node.get("roce_qos_tos")
    )


def test_lldpad_is_off(host: Host, node: Node) -> None:
    """No lldpad runs or starts at boot: it would overwrite these settings."""
    needs_roce(node, "lldpad's DCB")
    _needs_our_qos(node)
    for unit, seen in units.show(host, *_LLDPAD).items():
        if seen.get("ActiveState") in ("active", "activating", "reloading"):
            _reject_lldpad(node, unit, "active", RUNNING)
        if seen.get("UnitFileState") in ("enabled", "enabled-runtime"):
            _reject_lldpad(node, unit, "enabled", AFTER_REBOOT)


def test_unit_ran(host: Host, node: Node, rail: Rail) -> None:
    """The QoS units of the rail and of its ports have run without an error."""
    for netdev in _netdevs(host, node, rail):
        name = _unit_name(netdev)
        seen = units.show(host, name)[name]
        _unit_setting(node, netdev, RUNNING, f"journalctl -u {name}").require(
            seen.get("ActiveState") or "absent", "active"
        )


def test_unit_is_enabled_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The QoS units of the rail and of its ports run at boot."""
    for netdev in _netdevs(host, node, rail):
        enabled = units.state_after_reboot(host, _unit_name(netdev))
        _unit_setting(node, netdev, AFTER_REBOOT).require(enabled, "enabled")


def test_qos_after_reboot(host: Host, node: Node, rail: Rail) -> None:
    """The QoS units of the rail and of its ports set the site's values at boot."""
    texts = read_files(host, f"{_DESCRIPTIONS}/*.json")
    for netdev in _netdevs(host, node, rail):
        path = f"{_DESCRIPTIONS}/{netdev}.json"
        text = texts.get(path)
        try:
            seen = {} if text is None else json.loads(text)
        except ValueError as error:
            raise CouldNotTell(f"{path}: not JSON") from error
        for key, variable in _described().items():
            Setting(node, netdev, key, variable, where=path, truth=AFTER_REBOOT).require(
                _plain(seen.get(key)), _plain(node.get(variable))
            )


def _described() -> Mapping[str, str]:
    """Return by its key in the description the site's variable."""
    names = (
        "trust",
        "dscp_priorities",
        "pfc_priorities",
        "global_pause",
        "priority_tc",
        "tc_strict",
        "tc_percent",
        "buffer_bytes",
        "priority_buffer",
        "cable_length_m",
        "ecn_priorities",
        "dcqcn",
        "tos",
        "rdma_cm_mode",
        "force_traffic_class",
        "dcbx",
    )
    fabric = {"cnp_dscp": "fabric_cnp_dscp", "cnp_priority": "fabric_cnp_priority"}
    return {**{name: f"roce_qos_{name}" for name in names}, **fabric}


def _plain(value: object) -> object:
    """Return a value as JSON has it: keys are texts there."""
    if isinstance(value, Mapping):
        return {str(key): str(each) for key, each in sorted(value.items(), key=lambda i: str(i[0]))}
    return sorted(map(str, value)) if isinstance(value, (list, tuple)) else value


def _congestion(host: Host, node: Node, rail: Rail) -> list[tuple[str, congestion.Congestion]]:
    """Return those of a rail's ports that show congestion control.

    Of a LAG's, Linux's own driver shows it on the first alone (drivers/infiniband/hw/mlx5/cong.c).
    """
    needs_roce(node, "ECN")
    here = devices.read(host)
    ports = lower_ports.ports_of(here, rail)
    for port in ports:
        bluefield.require_host_owns(host, here, port.netdev)
    shown = {port.netdev: congestion.read(host, port.netdev, port.pci) for port in ports}
    found = [(netdev, seen) for netdev, seen in shown.items() if seen is not None]
    if not found:
        not_applicable(
            f"{', '.join(shown)}: the driver shows no congestion control; the firmware's settings "
            "count (mlx5_firmware_settings)"
        )
    if len(found) < len(shown) and any(seen.ecn is not None for _, seen in found):
        silent = ", ".join(netdev for netdev, seen in shown.items() if seen is None)
        raise CouldNotTell(f"{silent}: there is no {devices.NET}/{silent}/ecn")
    return found


def _netdevs(host: Host, node: Node, rail: Rail) -> tuple[str, ...]:
    """Return the network devices that have a unit: the rail's and all that it stands on."""
    needs_roce(node, "QoS")
    _needs_our_qos(node)
    here = devices.read(host)
    return lower_ports.with_below(here, rails.port_of(here, rail).netdev)


def _needs_our_qos(node: Node) -> None:
    if node.get("roce_qos_backend") == "keep":
        not_applicable("somebody else sets QoS here (roce_qos_backend: keep)")


def _unit_name(netdev: str) -> str:
    return f"rdmaprov-roce-qos@{units.escape(netdev)}.service"


def _unit_setting(node: Node, netdev: str, truth: str, look: str = "") -> Setting:
    where = f"systemctl show {_unit_name(netdev)}"
    return Setting(node, netdev, "QoS unit", "fabric_rails", where, truth, look=look)


def _reject_lldpad(node: Node, unit: str, seen: str, truth: str) -> None:
    name, fix = "unit", "systemctl mask --now lldpad.service lldpad.socket"
    setting = Setting(node, unit, name, "roce_qos_lldpad", f"systemctl show {unit}", truth, fix=fix)
    setting.reject(seen, "off")
