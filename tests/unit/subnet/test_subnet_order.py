"""Hosts with one HCA on a wrong leaf are found, and those of a leaf that is off are named."""

import pytest
from tests.unit.helpers.subnet_texts import Texts

from rdmaprov.subnet.check_cables import order_problems
from rdmaprov.subnet.fabric import build
from rdmaprov.subnet.model import Cable, Discovery, Kind, PortEnd
from rdmaprov.subnet.problem import word


def fabric(leaf_of, hosts=24):
    """Return leaves of one rail; `leaf_of` gives the leaf of a host's number."""
    cables = []
    for number in range(1, hosts + 1):
        leaf = leaf_of(number)
        switch = PortEnd(Kind.SWITCH, 100 + leaf, 100 + leaf, number, f"leaf-{leaf}")
        hca = PortEnd(Kind.HCA, 1000 + number, number, 1, f"node{number:03d} mlx5_0")
        cables.append(Cable(switch, hca, 4, 50.0, "HDR"))
    return build(Discovery(tuple(cables), ()))


def in_order(number):
    return (number - 1) // 8


def test_two_swapped_hosts_are_named():
    swapped = {2: 2, 19: 0}
    found = order_problems(fabric(lambda number: swapped.get(number, in_order(number))))
    assert [each.part for each in found] == ["node002 mlx5_0", "node019 mlx5_0"]


@pytest.mark.parametrize(
    "leaf_of",
    [in_order, lambda number: number % 2, lambda number: number % 3, lambda number: number * 7 % 5],
)
def test_regular_orders_have_no_problem(leaf_of):
    assert list(order_problems(fabric(leaf_of))) == []


def test_few_hosts_show_no_order():
    assert list(order_problems(fabric(lambda number: int(number == 3), hosts=6))) == []


def test_hosts_of_a_leaf_that_is_off_are_named(tmp_path):
    texts = Texts(tmp_path)
    texts.gone("leaf-p1-r1", *(f"node{number:03d} mlx5_1" for number in range(1, 9)))
    named = {each.part for each in texts.judge().problems if word(each) == "missing"}
    assert {f"node{number:03d} mlx5_1" for number in range(1, 9)} <= named
