"""What the collector prints of a node with one rail and one GPU."""

from __future__ import annotations

from typing import Any

RAIL: dict[str, Any] = {
    "device": "mlx5_0",
    "netdev": "ens1",
    "ports": ["ens1"],
    "pci": "0000:18:00.0",
    "path": ["0000:15:01.0", "0000:17:00.0", "0000:18:00.0"],
    "numa_node": 0,
    "link_layer": "Ethernet",
    "state": "4: ACTIVE",
    "gbps": 400.0,
    "mtu_bytes": 9000,
    "model": "15b3:1021",
    "card": "",
    "unfit": "",
    "is_smi": False,
    "manages_nvswitch": False,
    "driver": "mlx5_core",
    "firmware": "28.43.2026",
    "default_route": False,
    "is_bond": False,
    "is_virtual": False,
    "addresses": ["198.18.0.1/24", "2001:db8::1/64"],
    "partitions": [],
}
FACTS: dict[str, Any] = {
    "rails": [RAIL],
    "bare_nics": [],
    "python_minor": 11,
    "gpus": [{"pci": "0000:1b:00.0", "path": ["0000:15:01.0"], "numa_node": 0}],
    "gpu_module": "open",
    "memory_bytes": 2113646592 * 1024,
    "numa_nodes": 2,
    "lldp": {"lldpd": "", "lldpad": "", "error": ""},
    "kernel": "6.8.0-45-generic",
}
