"""Hugepages of others: of an administrator, of doca-hugepages, of sysctl."""

from __future__ import annotations

import json

import pytest
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.hugepages_node import CFG, ENTRY, LARGE, SMALL, Node, factory_node, run


@pytest.fixture
def node(machine: FakeMachine) -> Node:
    return factory_node(machine)


def test_pages_of_others_are_freed_where_the_site_says_so(node: Node):
    node.pool(0, SMALL, 512)
    node.pool(1, LARGE, 3)
    run(node, count_2m=10)
    assert (node.pages(), node.pages(LARGE)) == ([5, 5], [0, 3])
    run(node, count_2m=10, unlisted="free")
    assert (node.pages(), node.pages(LARGE)) == ([5, 5], [0, 0])


def test_pages_and_kernel_arguments_of_others_stay(node: Node):
    """An administrator's DPDK pages: of the default size by sysctl, large ones by GRUB."""
    theirs = "default_hugepagesz=1G hugepagesz=1G hugepages=4"
    node.put("/proc/cmdline", f"root=/dev/sda1 ro {theirs}\n")
    node.put(CFG, ENTRY.format(theirs))
    node.put("/etc/sysctl.d/30-dpdk.conf", "vm.nr_hugepages = 4\n")
    node.put("/proc/meminfo", f"MemTotal: {64 << 20} kB\nHugepagesize:  {LARGE} kB\n")
    node.pool(0, LARGE, 4)
    result = run(node, count_2m=10)
    assert (node.pages(), node.pages(LARGE)) == ([5, 5], [4, 0])
    assert (result["reboot"], theirs in (node.read(CFG) or "")) == ([], True)
    with pytest.raises(Refused, match=r"sets vm\.nr_hugepages to 4"):
        run(node, count_2m=10, unlisted="free")


def doca(node: Node, **apps: int) -> None:
    for app, pages in apps.items():
        text = json.dumps({"2048": {"num": pages, "is_active": "active"}})
        node.put(f"/etc/mellanox/hugepages.d/{app}.json", text)


def test_pages_of_doca_are_its_own_where_the_site_says_nothing(node: Node):
    doca(node, ovs=300, snap=212)
    node.pool(0, SMALL, 256)
    node.pool(1, SMALL, 256)
    assert not run(node, unlisted="free")["changed"]
    assert run(node, count_2m=512)["changed"]


def test_site_that_contradicts_doca_is_refused(node: Node):
    doca(node, ovs=300, snap=212)
    with pytest.raises(
        Refused, match=r"takes 512 pages of 2048 kB .* write hugepages_2m_count: 512"
    ):
        run(node, count_2m=500)
    with pytest.raises(Refused, match="but ignores hugepages on the kernel's command line"):
        run(node, count_2m=512, count_1g=2)
    node.put("/etc/mellanox/hugepages.d/x.json", "[]")
    with pytest.raises(Refused, match=r"x\.json is not what doca-hugepages writes"):
        run(node)


def test_sysctl_that_sets_another_number_at_boot_is_refused(node: Node):
    node.put("/etc/sysctl.d/30-dpdk.conf", "vm.nr_hugepages = 1024\n")
    with pytest.raises(Refused, match=r"30-dpdk\.conf:1: sets vm.nr_hugepages to 1024 at boot"):
        run(node, count_2m=512)
    assert not run(node)["changed"]
    assert run(node, count_2m=1024)["changed"]
