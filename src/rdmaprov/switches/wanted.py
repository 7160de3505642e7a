"""What a switch should be set to: what a site says, or the usual settings of RoCE."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdmaprov.contract.qos import priority_of
from rdmaprov.errors import UsageError
from rdmaprov.inventory import schema
from rdmaprov.inventory.model import Fleet, Node
from rdmaprov.problem import display_path
from rdmaprov.switches.model import SwitchFact

# roles/fabric, fabric_mtu_bytes: packets of an RDMA MTU of 4096 with their headers.
LEAST_MTU_BYTES = 4192
USUAL = "usual for RoCE"
_VARIABLES = {
    SwitchFact.PFC: "roce_qos_pfc_priorities",
    SwitchFact.TRUST: "roce_qos_trust",
    SwitchFact.DSCP_MAP: "roce_qos_dscp_priorities",
    SwitchFact.ECN: "roce_qos_ecn_priorities",
    SwitchFact.MTU: "fabric_mtu_bytes",
    SwitchFact.BUFFERS: "roce_qos_pfc_priorities",
    SwitchFact.WEIGHTS: "roce_qos_tc_strict",
}


@dataclass(frozen=True)
class WantedSwitch:
    """What the ports of the rails should have."""

    pfc: frozenset[int]  # priorities with PFC; none for lossy RoCE
    roce_dscp: int
    roce_priority: int
    cnp_dscp: int
    cnp_priority: int
    ecn: bool = True
    trusts_dscp: bool = True  # whether DSCP is to decide on the class
    mtu_bytes: int = LEAST_MTU_BYTES  # the least MTU
    link_gbps: int = 0  # the rate of rails; 0 if it is not known
    nodes: frozenset[str] = frozenset()
    is_site: bool = False

    def source(self, fact: SwitchFact) -> str:
        """Return who says so: a variable of the site, or practice."""
        return _VARIABLES.get(fact, USUAL) if self.is_site else USUAL


def usual_settings() -> WantedSwitch:
    """Return what RoCE usually has: the defaults of the role fabric.

    NVIDIA Cumulus Linux, "RDMA over Converged Ethernet - RoCE", sets the same by one command: PFC
    on priority 3, DSCP 26 to it, DSCP 48 to priority 6, ECN.
    """
    defaults = schema.load_shipped().defaults
    lossless = int(defaults["fabric_lossless_priority"])
    return WantedSwitch(
        frozenset({lossless}),
        int(defaults["fabric_roce_dscp"]),
        lossless,
        int(defaults["fabric_cnp_dscp"]),
        int(defaults["fabric_cnp_priority"]),
    )


def wanted_of(fleet: Fleet) -> WantedSwitch:
    """Return what a site says of its RoCE fabric; raise UsageError for none, or for several."""
    nodes = [node for node in fleet.nodes if node.get("fabric_kind") == "roce"]
    site = display_path(str(fleet.site), Path.cwd())
    if not nodes:
        raise UsageError(
            f"{site}: no node has RoCE (fabric_kind)", f"For InfiniBand: rdmaprov subnet {site}"
        )
    roce_dscp = _same(nodes, "fabric_roce_dscp", site)
    cnp_dscp = _same(nodes, "fabric_cnp_dscp", site)
    return WantedSwitch(
        frozenset(_same(nodes, "roce_qos_pfc_priorities", site) or ()),
        roce_dscp,
        priority_of(nodes[0], roce_dscp),
        cnp_dscp,
        priority_of(nodes[0], cnp_dscp),
        ecn=bool(_same(nodes, "roce_qos_ecn_priorities", site)),
        trusts_dscp=_same(nodes, "roce_qos_trust", site) == "dscp",
        mtu_bytes=max(int(node.get("fabric_mtu_bytes") or 0) for node in nodes),
        link_gbps=_rate(nodes),
        nodes=frozenset(node.name.lower().partition(".")[0] for node in nodes),
        is_site=True,
    )


def _rate(nodes: Sequence[Node]) -> int:
    rates = Counter(node.link_gbps(rail) for node in nodes for rail in node.rails)
    return rates.most_common(1)[0][0] if rates else 0


def _same(nodes: Sequence[Node], name: str, site: str) -> Any:  # noqa: ANN401 - a variable
    """Return the value that all nodes have.

    Raises:
        UsageError: they differ, so that no port of a switch can be right for all.
    """
    values: Mapping[str, Any] = {repr(node.get(name)): node.get(name) for node in nodes}
    if len(values) > 1:
        raise UsageError(
            f"{site}: nodes differ in {name}: {', '.join(sorted(values)[:4])}",
            "Judge the switches of one kind of node at a time: --limit PATTERN",
        )
    return next(iter(values.values()))
