"""Which RDMA names stay with their card, and which udev rules give one."""

from __future__ import annotations

import pytest

from rdmaprov.facts import rdma_names
from rdmaprov.facts.text import Files

RULE = 'SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_FIXED {}"\n'


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("mlx5_0", "mlx5_"),
        ("mlx5_11", "mlx5_"),
        ("mlx5_bond_0", "mlx5_bond_"),
        ("bnxt_re1", "bnxt_re"),
        ("irdma0", "irdma"),
        ("mlx5_an0", ""),
        ("roce_rail0", ""),
        ("rocep24s0f0", ""),
    ],
)
def test_kernel_names_count(name: str, counter: str):
    assert rdma_names.counter(name) == counter


@pytest.mark.parametrize(
    ("name", "is_by_place"),
    [
        # Those of rdma-core, kernel-boot/rdma_rename.c.
        ("ibp0s12f4", True),
        ("rocex525400c0fe123455", True),
        ("opao3", True),
        ("rocep24s0", True),
        ("rocep129s0f0v1", True),
        ("ibP2p1s0", True),
        ("ibs3", True),
        ("mlx5_0", False),
        ("roce_rail0", False),
        ("rocex52", False),
    ],
)
def test_names_by_place_are_known(name: str, is_by_place: bool):
    assert rdma_names.is_by_place(name) is is_by_place


DIRECTORIES = {"etc": "/etc", "run": "/run", "usr": "/usr/lib"}


def rules(**files: str) -> rdma_names.Renaming:
    """Return what rules do; a name such as etc_a is for /etc/udev/rules.d/a.rules."""
    texts = {}
    for key, text in files.items():
        directory, _, name = key.partition("_")
        texts[f"{DIRECTORIES[directory]}/udev/rules.d/{name}.rules"] = text
    return rdma_names.parse(Files(texts, {}))


def test_rule_of_the_first_directory_counts():
    found = rules(
        etc_a=RULE.format("one") + "#" + RULE.format("two"),
        run_a=RULE.format("three"),
        usr_rdma=RULE.format("four"),
    )
    assert found == rdma_names.Renaming(frozenset({"one", "four"}), by_place=False)


# rdma-core, kernel-boot/rdma-persistent-naming.rules.
DISTRIBUTION = (
    'ACTION=="add", SUBSYSTEM=="infiniband", KERNEL!="hfi1*", '
    'PROGRAM="rdma_rename %k NAME_FALLBACK"\n'
)


def test_names_by_place_need_the_rule_that_gives_them():
    assert rules(usr_rdma=DISTRIBUTION).keeps("rocep24s0")
    kernel = DISTRIBUTION.replace("NAME_FALLBACK", "NAME_KERNEL")
    assert not rules(etc_rdma=kernel, usr_rdma=DISTRIBUTION).keeps("rocep24s0")
    assert not rules().keeps("rocep24s0")


def test_kernels_names_need_no_rule():
    assert rules().keeps("mlx5_0")
    assert not rules(usr_rdma=DISTRIBUTION).keeps("roce_rail0")
