"""A leaf that is off takes a rail from half of the hosts: each of them is named."""

from __future__ import annotations

from tests.unit.helpers.subnet_texts import Texts

from rdmaprov.subnet.problem import word


def test_hosts_of_a_leaf_that_is_off_are_named(tmp_path):
    texts = Texts(tmp_path)
    texts.gone("leaf-p1-r1", *(f"node{number:03d} mlx5_1" for number in range(1, 9)))
    named = {each.part for each in texts.judge().problems if word(each) == "missing"}
    assert {f"node{number:03d} mlx5_1" for number in range(1, 9)} <= named
