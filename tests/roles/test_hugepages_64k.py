"""Hugepages of Arm kernels with memory pages of 64 KiB: 2 MiB, 512 MiB and 16 GiB."""

from __future__ import annotations

from typing import Any

import pytest
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.roles.hugepages_node import CFG, OF_64K, SMALL, UNIT, Node, run

MIDDLE, LARGEST = OF_64K


@pytest.fixture
def node(machine: FakeMachine) -> Node:
    made = Node.made(machine.root)
    made.have_64k_pages()
    return made


def test_middle_pages_are_taken_now_and_by_the_unit(node: Node):
    result = run(node, count_512m=5, count_2m=8)
    assert (node.pages(MIDDLE), node.pages(SMALL), result["reboot"]) == ([3, 2], [4, 4], [])
    assert {each["setting"] for each in result["changes"]} >= {"512 MiB hugepages"}
    unit = node.read(UNIT) or ""
    assert unit.index("524288kB") < unit.index("2048kB"), "large pages are taken first"
    assert not run(node, count_512m=5, count_2m=8)["changed"]


def test_largest_pages_wait_for_a_boot(node: Node):
    result = run(node, count_16g=2)
    assert "hugepagesz=16G hugepages=2" in (node.read(CFG) or "")
    assert "expected 'hugepagesz=16G hugepages=2'" in result["reboot"][0]
    assert not node.exists(UNIT)


@pytest.mark.parametrize(
    ("default_size", "words"),
    [
        ("512M", ""),
        ("keep", ""),
        ("2M", "default_hugepagesz=2M"),
        ("16G", "default_hugepagesz=16G"),
    ],
)
def test_default_size_of_the_kernel_needs_no_argument(node: Node, default_size: str, words: str):
    run(node, default_size=default_size)
    assert ("default_hugepagesz" in (node.read(CFG) or "")) is bool(words)
    assert words in (node.read(CFG) or "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count_1g": 4}, "hugepages_1g_count: there are no 1 GiB pages here"),
        ({"default_size": "1G"}, "hugepages_default_size: this kernel has no pages of 1 GiB"),
        ({"count_16g": 4}, "leave less than 1.0 GiB of the node's 64.0 GiB"),
    ],
)
def test_what_this_kernel_lacks_is_refused(node: Node, given: dict[str, Any], message: str):
    with pytest.raises(Refused, match=message):
        run(node, **given)
    assert node.written == []


def test_sysctl_sets_pages_of_the_kernels_default_size(node: Node):
    node.put("/etc/sysctl.d/30-dpdk.conf", "vm.nr_hugepages = 4\n")
    with pytest.raises(Refused, match="write hugepages_512m_count: 4"):
        run(node, count_512m=2)
    assert not run(node)["changed"]
    assert run(node, count_2m=2)["changed"]


def test_kernel_with_memory_pages_of_4k_lacks_them(machine: FakeMachine):
    small = Node.made(machine.root)
    with pytest.raises(Refused, match="there are no 512 MiB pages here"):
        run(small, count_512m=1)
    with pytest.raises(Refused, match="there are no 16 GiB pages here"):
        run(small, count_16g=1)
