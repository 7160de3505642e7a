"""The site of a made-up fleet: nodes as the inventory would load them."""

import tempfile
from dataclasses import replace
from functools import cache
from ipaddress import ip_interface
from pathlib import Path

from tests.madeup.nodes import rail_address
from tests.madeup.shape import FleetShape

from rdmaprov.inventory import Node, load_site

_HOSTS = "---\nnodes:\n  hosts:\n    gpu001: {}\n"


@cache
def _first(shape: FleetShape) -> Node:
    """Return the first node, loaded from files as a real site is."""
    rails = "\n".join(
        f"  - {{netdev: rail{rail}, address: {rail_address(rail, 0)}/16}}"
        for rail in range(shape.rails)
    )
    words = {
        "fabric_kind": shape.kind,
        "fabric_link_gbps": f"{shape.gbps:g}",
        "fabric_gpu_count": shape.gpus,
        "fabric_leaf": "leaf01",
        "fabric_sharp": "wanted" if shape.sharp else "'off'",
    }
    text = "".join(f"{name}: {value}\n" for name, value in words.items())
    with tempfile.TemporaryDirectory() as place:
        site = Path(place)
        (site / "group_vars").mkdir()
        (site / "hosts.yml").write_text(_HOSTS)
        (site / "group_vars/all.yml").write_text(f"---\n{text}fabric_rails:\n{rails}\n")
        fleet = load_site(site)
    assert not fleet.problems, fleet.problems
    return fleet.nodes[0]


@cache
def site_nodes(shape: FleetShape) -> tuple[Node, ...]:
    first = _first(shape)
    return tuple(_node(first, shape, number) for number in range(shape.nodes))


def _node(first: Node, shape: FleetShape, number: int) -> Node:
    rails = tuple(
        replace(rail, address=ip_interface(f"{rail_address(rail.index, number)}/16"))
        for rail in first.rails
    )
    values = {**first.values, "fabric_leaf": shape.leaf_name(number)}
    return replace(first, name=shape.names[number], values=values, rails=rails)
