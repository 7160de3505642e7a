"""Hosts of the subnet manager that a site lists more than once: said in the order of the list."""

from __future__ import annotations

from rdmaprov.contract.subnet import _hosts
from rdmaprov.inventory import Node
from rdmaprov.problem import Position

NAMES = [f"ib{number:02}" for number in (7, 3, 5, 1, 6, 2, 4)]


def test_hosts_that_are_listed_twice_are_named_in_the_order_of_the_list():
    values = {"subnet_manager_hosts": [*NAMES, *NAMES]}
    node = Node("ib01", (), values, (), frozenset(), (), lambda *_: Position("site"))
    assert [found.message for found in _hosts(node)] == [
        f"{name} is listed 2 times" for name in NAMES
    ]
