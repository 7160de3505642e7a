"""The site of a subnet on ibsim: its plan, without its faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rdmaprov.lab.ib_topology import (
    RATE_GBPS,
    Topology,
    device_name,
    leaf_name,
    node_name,
    pod_name,
)

# Full membership of the default partition, which opensm gives every port: opensm(8), PARTITION
# CONFIGURATION.
_DEFAULT_KEY = "0xffff"
_HEADER = "---\n# Written by `rdmaprov lab subnet site`.\n"


def write_site(directory: Path, topology: Topology) -> None:
    """Write hosts and variables; the leaf of a rail follows from the node's fabric_leaf."""
    import yaml

    hosts = {
        node_name(node + 1): {"fabric_leaf": pod_name(node // topology.nodes_per_leaf + 1)}
        for node in range(topology.nodes)
    }
    variables: dict[str, Any] = {
        "fabric_kind": "infiniband",
        "fabric_link_gbps": RATE_GBPS,
        "fabric_ipoib": False,
        "fabric_partition_keys": [_DEFAULT_KEY],
        "subnet_manager_hosts": [node_name(1)],
        "fabric_rails": [
            {
                "rdma": device_name(rail),
                "leaf": leaf_name("{{ fabric_leaf }}", rail),
            }
            for rail in range(topology.rails)
        ],
        "fabric_spines": topology.spine_names(),
    }
    (directory / "group_vars").mkdir(parents=True, exist_ok=True)
    for name, data in (
        ("hosts.yml", {"nodes": {"hosts": hosts}}),
        ("group_vars/all.yml", variables),
    ):
        text = yaml.safe_dump(data, sort_keys=False, width=1000)
        (directory / name).write_text(_HEADER + text)
