"""Hugepages, for each size and NUMA node: running, configured, and after a boot."""

import json
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.hugepages.hugetlb import directory_of
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import hugepages
from tests.roles.fake import FakeMachine, layers
from tests.roles.hugepages_node import CFG, ENTRY, LARGE, LINK, OF_64K, SMALL, UNIT, Node, run
from tests.tables import cases
from tests.unit.helpers.shell import execute


@pytest.fixture
def node(machine: FakeMachine) -> Node:
    return Node.made(machine.root)


def test_numa_nodes_get_their_pages_now_and_at_boot(node: Node):
    result = run(node, per_numa_node_2m=[512, 100])
    assert layers(result) == [
        ("configured", UNIT),
        ("configured", "rdmaprov-hugepages.service"),
        ("running", "NUMA node 0"),
        ("running", "NUMA node 1"),
    ]
    assert node.pages() == [512, 100]
    assert result["reboot"] == []
    assert not run(node, per_numa_node_2m=[512, 100])["changed"]
    node.boot()
    assert node.pages() == [512, 100]
    assert not run(node, per_numa_node_2m=[512, 100])["changed"]


@pytest.mark.parametrize(("seen", "changes"), [([11, 10], 0), ([10, 11], 0), ([21, 0], 2)])
def test_count_is_even_over_numa_nodes(node: Node, seen: list[int], changes: int):
    run(node, count_2m=21)
    node.pool(0, SMALL, seen[0])
    node.pool(1, SMALL, seen[1])
    assert len(run(node, count_2m=21)["changes"]) == changes


def test_pool_shrinks_before_another_grows(node: Node):
    run(node, per_numa_node_2m=[10, 30])
    node.pool(0, SMALL, 40)
    node.pool(1, SMALL, 0)
    node.written.clear()
    run(node, per_numa_node_2m=[10, 30])
    assert node.written == [f"{directory_of(numa, SMALL)}/nr_hugepages" for numa in (0, 1)]


def test_fewer_pages_than_wanted_are_an_error_that_names_the_numa_node(node: Node):
    node.room[1] = 300
    with pytest.raises(
        NodeError, match=r"^NUMA node 1: the kernel allocated 300 of 512 hugepages of"
    ):
        run(node, per_numa_node_2m=[512, 512])
    assert "/proc/sys/vm/drop_caches" in node.written
    assert node.exists(LINK)  # so a reboot helps


def test_caches_are_kept_where_compaction_is_enough(node: Node):
    node.room[0] = 300
    kernel = node.set

    def compact(name: str, value: str) -> None:
        if name.endswith("compact_memory"):
            node.room[0] = 20000
        kernel(name, value)

    node.set = compact  # type: ignore[method-assign]
    run(node, count_2m=1000)
    assert node.pages() == [500, 500]
    assert "/proc/sys/vm/drop_caches" not in node.written


def test_surplus_pages_do_not_count(node: Node):
    run(node, count_2m=20)
    node.pool(0, SMALL, 10, used=10, surplus=4)
    assert layers(run(node, check=True, count_2m=20)) == [("running", "NUMA node 0")]


def test_pages_no_longer_wanted_leave_nothing(node: Node):
    run(node, count_2m=20, count_1g=4)
    node.boot()
    assert run(node, unlisted="free")["reboot"]
    assert not any(node.exists(path) for path in (UNIT, LINK))
    assert (node.pages(), node.pages(LARGE)) == ([0, 0], [0, 0])
    node.boot()
    after = run(node, unlisted="free")
    assert (after["changed"], after["reboot"]) == (False, [])


def test_unit_of_ours_goes_and_its_pages_stay_until_a_boot(node: Node):
    run(node, count_2m=20)
    assert run(node)["changed"]
    assert not any(node.exists(path) for path in (UNIT, LINK))
    assert node.pages() == [10, 10]
    assert not run(node)["changed"]


def test_large_pages_wait_for_a_boot(node: Node):
    assert run(node, count_1g=4)["reboot"] == [
        "the running kernel has '', expected 'hugepagesz=1G hugepages=4' (/proc/cmdline)"
    ]
    assert node.written == []
    assert not node.exists(UNIT)
    node.boot()
    after = run(node, count_1g=4)
    assert (after["changed"], after["reboot"]) == (False, [])


def test_large_pages_that_the_kernel_did_not_give_at_boot_are_an_error(node: Node):
    run(node, count_1g=4)
    node.boot()
    node.pool(1, LARGE, 1)
    node.room[1] = 1
    with pytest.raises(
        NodeError, match="NUMA node 1: the kernel allocated 1 of 2 hugepages of 1 GiB"
    ):
        run(node, count_1g=4)


def test_large_pages_by_numa_node_at_boot(node: Node):
    reboot = run(node, per_numa_node_1g=[0, 4], default_size="1G")["reboot"]
    assert "'default_hugepagesz=1G hugepagesz=1G hugepages=1:4'" in reboot[0]
    node.put("/proc/sys/kernel/osrelease", "5.15.0-100-generic\n")
    said = r"kernel 5\.15\.0-100-generic takes no pages by .*; write hugepages_1g_count, or"
    with pytest.raises(Refused, match=said):
        run(node, per_numa_node_1g=[2, 3])


def test_large_pages_at_run_time_need_no_boot(node: Node):
    assert run(node, count_1g=3, allocation_1g="runtime")["reboot"] == []
    assert node.pages(LARGE) == [2, 1]
    node.boot()
    assert node.pages(LARGE) == [2, 1]


def test_page_size_that_the_machine_lacks_is_refused(node: Node):
    for numa_node in (0, 1):
        for name in ("nr", "free", "surplus"):
            node.remove(f"{directory_of(numa_node, LARGE)}/{name}_hugepages")
        Path(node.path(directory_of(numa_node, LARGE))).rmdir()
    assert not run(node)["changed"]
    with pytest.raises(Refused, match="hugepages_1g_count: there are no 1 GiB"):
        run(node, count_1g=1)


def test_script_of_the_unit_reserves_and_fails_where_pages_lack(tmp_path: Path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("0\n")
    bad.symlink_to("/dev/null")  # keeps nothing
    script = hugepages.SCRIPT.replace("/proc/sys/vm/compact_memory", str(tmp_path / "c"))
    done = execute(["sh", "-c", script, "sh", bad, "4", good, "12"], timeout=10)
    assert (done.returncode, done.stdout) == (1, f"{bad}:  of 4 pages\n")
    assert good.read_text() == "12\n"
    assert (tmp_path / "c").read_text() == "1\n"


def test_unit_takes_large_pages_first():
    text = hugepages.unit({(SMALL, 0): 7, (SMALL, 1): 0, (LARGE, 0): 2})
    files = [line.split()[0] for line in text.splitlines() if "nr_hugepages" in line]
    assert [file.split("/")[5] + file.split("/")[-2] for file in files] == [
        "node0hugepages-1048576kB",
        "node1hugepages-2048kB",
        "node0hugepages-2048kB",
    ]
    assert "$" not in text.replace("$$", "")


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


def test_sysctl_that_sets_another_number_at_boot_is_refused(node: Node):
    node.put("/etc/sysctl.d/30-dpdk.conf", "vm.nr_hugepages = 1024\n")
    with pytest.raises(Refused, match=r"30-dpdk\.conf:1: sets vm.nr_hugepages to 1024 at boot"):
        run(node, count_2m=512)
    assert not run(node)["changed"]
    assert run(node, count_2m=1024)["changed"]


MIDDLE, LARGEST = OF_64K


@pytest.fixture
def arm(machine: FakeMachine) -> Node:
    made = Node.made(machine.root)
    made.have_64k_pages()
    return made


def test_middle_pages_are_taken_now_and_by_the_unit(arm: Node):
    result = run(arm, count_512m=5, count_2m=8)
    assert (arm.pages(MIDDLE), arm.pages(SMALL), result["reboot"]) == ([3, 2], [4, 4], [])
    assert {each["setting"] for each in result["changes"]} >= {"512 MiB hugepages"}
    unit = arm.read(UNIT) or ""
    assert unit.index("524288kB") < unit.index("2048kB"), "large pages are taken first"
    assert not run(arm, count_512m=5, count_2m=8)["changed"]


def test_largest_pages_wait_for_a_boot(arm: Node):
    result = run(arm, count_16g=2)
    assert "hugepagesz=16G hugepages=2" in (arm.read(CFG) or "")
    assert "expected 'hugepagesz=16G hugepages=2'" in result["reboot"][0]
    assert not arm.exists(UNIT)


@pytest.mark.parametrize(
    ("default_size", "words"), cases(__file__, "default_size_of_the_kernel_needs_no_argument")
)
def test_default_size_of_the_kernel_needs_no_argument(arm: Node, default_size: str, words: str):
    run(arm, default_size=default_size)
    assert ("default_hugepagesz" in (arm.read(CFG) or "")) is bool(words)
    assert words in (arm.read(CFG) or "")


@pytest.mark.parametrize(("given", "message"), cases(__file__, "what_this_kernel_lacks_is_refused"))
def test_what_this_kernel_lacks_is_refused(arm: Node, given: dict[str, Any], message: str):
    with pytest.raises(Refused, match=message):
        run(arm, **given)
    assert arm.written == []


def test_sysctl_sets_pages_of_the_kernels_default_size(arm: Node):
    arm.put("/etc/sysctl.d/30-dpdk.conf", "vm.nr_hugepages = 4\n")
    with pytest.raises(Refused, match="write hugepages_512m_count: 4"):
        run(arm, count_512m=2)
    assert not run(arm)["changed"]
    assert run(arm, count_2m=2)["changed"]
