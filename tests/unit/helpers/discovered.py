"""What the collector prints of a node with one rail and one GPU."""

from typing import Any

from tests.tables import cases

from rdmaprov.acceptance.paths.survey import NodeSurvey
from rdmaprov.perftest.tool.options import Abilities, RdmaPort

RAIL = cases(__file__, "rail")
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


FULL = ["32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"]
HALF = ["32.0 GT/s PCIe", "8", "32.0 GT/s PCIe", "16"]
NDR = "400 Gb/sec (4X NDR)"


def device(switch: int, place: int, link=FULL) -> list[dict[str, object]]:
    """Return the way to a device below a switch: root port, the switch's two ports, the device."""
    names = (f"0000:{switch:02x}:00.0", f"0000:{switch:02x}:01.0", f"0000:{switch:02x}:02.{place}")
    path = [{"address": name, "link": FULL} for name in names]
    return [*path, {"address": f"0000:{switch:02x}:1{place}.0", "link": link}]


def survey(nic_link=FULL, gpu_link=FULL, configs=None, software=False) -> NodeSurvey:
    """Return a node of two sockets: on each a switch with one NIC and one GPU."""
    rails = [
        {
            "device": f"mlx5_{n}",
            "layer": "InfiniBand",
            "rate": NDR,
            "gid": -1,
            "path": [] if software else device(n + 1, 0, nic_link if n == 0 else FULL),
            "numa": n,
        }
        for n in range(2)
    ]
    gpus = [
        {"index": n, "path": device(n + 1, 1, gpu_link if n == 0 else FULL), "numa": n}
        for n in range(2)
    ]
    said = {"numa": [0, 1], "rails": rails, "gpus": gpus, "configs": configs or {}}
    able = {"ib_write_bw": Abilities()}
    return NodeSurvey("10.0.0.1", able, {n: RdmaPort(f"mlx5_{n}") for n in range(2)}, said)
