"""Four nodes in order, as the reader on the node describes them."""

from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.preflight import reach
from rdmaprov.inventory import load_site


def four_nodes(directory):
    files = dict(GOOD)
    files["hosts.yml"] = "---\nnodes:\n  hosts:\n" + "".join(
        f"    n{n}: {{unit: {n}}}\n" for n in (1, 2, 3, 4)
    )
    return load_site(write(directory, files)).nodes


def facts(number):
    return {
        "time": 1000.5,
        "port": 40000 + number,
        "hostname": f"n{number}.example",
        "torch": {"python": "3.11.2", "torch": "2.13.0", "nccl": "2.30.7"},
        "gpus": {
            "gpus": [{"index": "0", "name": "H100", "total_mib": "80000", "free_mib": "79500"}],
            "processes": [],
            "error": "",
        },
        "addresses": {
            "eth0": [f"192.0.2.{number}"],
            "ens1": [f"198.18.0.{number}"],
            "ens2": [f"198.18.1.{number}"],
        },
        "rails": [
            {
                "netdev": f"ens{rail + 1}",
                "there": True,
                "carrier": True,
                "addresses": [f"198.18.{rail}.{number}"],
                "rdma": f"mlx5_{rail}",
                "state": "ACTIVE",
                "counters": {"port.port_xmit_data": 0, "hw.out_of_sequence": 7},
            }
            for rail in range(2)
        ],
        "others": {"eth0": 1000},
    }


def tries(nodes, known):
    own: dict[str, list[reach.ReachTest]] = {node.name: [] for node in nodes}
    for probe in reach.reach_tests(nodes, known):
        own[probe.source].append(probe)
    return own
