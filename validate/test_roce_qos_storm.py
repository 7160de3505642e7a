"""PFC storm prevention on each rail: a port that stalls must not pause the fabric for ever."""

import pytest
from testinfra.host import Host

from rdmaprov.facts import bluefield, devices, lower_ports, tunables
from rdmaprov.inventory import Node, Rail
from rdmaprov.validate.verdict import Setting, needs_roce, not_applicable

pytestmark = pytest.mark.state


def test_stalled_port_stops_pausing(host: Host, node: Node, rail: Rail) -> None:
    """A port with PFC that takes no packets stops sending PFC after some time."""
    needs_roce(node, "PFC")
    if not node.get("roce_qos_pfc_priorities"):
        not_applicable("roce_qos_pfc_priorities: [], so no port pauses others")
    here = devices.read(host)
    for port in lower_ports.ports_of(here, rail):
        bluefield.require_host_owns(host, here, port.netdev)
        seen = tunables.pfc_timeout_ms(host, port.netdev)
        if seen is None:
            not_applicable(f"{port.netdev}: its driver does not show PFC storm prevention")
        if seen == 0:
            Setting(
                node,
                port.netdev,
                "PFC storm prevention",
                "roce_qos_pfc_priorities",
                where=tunables.pfc_timeout_command(port.netdev),
                fix=f"ethtool --set-tunable {port.netdev} {tunables.PFC_TIMEOUT} 8000",
            ).reject("off", "on")
