"""A site of made-up nodes for the gate, and ranks of which one is slow."""

from __future__ import annotations

from tests.unit.helpers.sites import GOOD, write

from rdmaprov.acceptance.preflight.gate_site import GateSite
from rdmaprov.acceptance.preflight.reach import Rendezvous
from rdmaprov.inventory import load_site

GPUS = 8


def made_site(path, count=16, backend="nccl", per_leaf=0, extra=""):
    leaf = [f", fabric_leaf: leaf{n // per_leaf}" if per_leaf else "" for n in range(count)]
    hosts = "".join(f"    n{n + 1}: {{unit: {n + 1}{leaf[n]}}}\n" for n in range(count))
    files = {**GOOD, "hosts.yml": f"---\nnodes:\n  hosts:\n{hosts}"}
    files["group_vars/nodes.yml"] = files.get("group_vars/nodes.yml", "---\n") + extra
    nodes = load_site(write(path / "site", files)).nodes
    assert len(nodes) == count
    facts = {
        node.name: {
            "port": 40000,
            "addresses": {"eth0": [f"192.0.2.{number}"]},
            "gpus": {"gpus": [{"free_mib": "80000", "total_mib": "81920"}] * GPUS},
            "rails": [{"netdev": f"ens{r}", "rdma": f"mlx5_{r}"} for r in (1, 2)],
        }
        for number, node in enumerate(nodes, start=1)
    }
    return GateSite(nodes, facts, backend, Rendezvous("192.0.2.1", dict.fromkeys(facts, "eth0")))


def slow(bad, share=0.5, plane=None, gpus=range(GPUS)):
    def of(node, where, gpu):
        return share if node == bad and plane in (None, where) and gpu in gpus else 1.0

    return of
