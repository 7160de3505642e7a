"""Which RDMA names stay with their card, and which udev rules give one."""

from __future__ import annotations

import pytest

from rdmaprov.facts import rdma_names
from rdmaprov.facts.text import Files

RULE = 'SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_FIXED {}"\n'


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("mlx5_0", "mlx5_"), ("mlx5_11", "mlx5_"), ("mlx5_bond_0", "mlx5_bond_"),
        ("bnxt_re1", "bnxt_re"), ("irdma0", "irdma"), ("mlx5_an0", ""), ("roce_rail0", ""),
        ("rocep24s0f0", ""),
    ],
)  # fmt: skip
def test_kernel_names_count(name: str, counter: str):
    assert rdma_names.counter(name) == counter


@pytest.mark.parametrize(
    ("name", "is_by_place"),
    [
        # Those of rdma-core, kernel-boot/rdma_rename.c.
        ("ibp0s12f4", True), ("rocex525400c0fe123455", True), ("opao3", True),
        ("rocep24s0", True), ("rocep129s0f0v1", True), ("ibP2p1s0", True), ("ibs3", True),
        ("mlx5_0", False), ("roce_rail0", False), ("rocex52", False),
    ],
)  # fmt: skip
def test_names_by_place_are_known(name: str, is_by_place: bool):
    assert rdma_names.is_by_place(name) is is_by_place


def test_rule_of_the_first_directory_counts():
    files = Files(
        {
            "/etc/udev/rules.d/70-a.rules": RULE.format("one") + "#" + RULE.format("two"),
            "/run/udev/rules.d/70-a.rules": RULE.format("three"),
            "/usr/lib/udev/rules.d/60-rdma-b.rules": RULE.format("four"),
        },
        {},
    )
    assert rdma_names.parse_fixed(files) == {"one", "four"}
