"""What a cut installation or removal of the RDMA drivers left is repaired."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.machine import NodeError
from tests.roles.apt_node import KERNEL, KERNEL_DKMS, AptNode, made
from tests.roles.ofed_node import STALE, run


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return made(str(tmp_path / "node"))


@pytest.mark.parametrize("headers", [False, True])
def test_installation_that_was_cut_is_repaired(node: AptNode, headers: bool):
    if headers:
        node.put(f"/lib/modules/{KERNEL}/build/Makefile")
    node.cut = True
    with pytest.raises(NodeError, match="Killed"):
        run(node)
    halfway = "doca-ofed" if headers else f"linux-headers-{KERNEL}"
    assert node.packages[halfway][0] == "iU"
    assert node.exists(STALE)
    node.cut = False
    result = run(node)
    assert result["changes"][0]["seen"].startswith("halfway: ")
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")
    assert not node.exists(STALE)
    assert not run(node)["changed"]


def test_package_cut_in_its_files_that_is_to_go_goes(node: AptNode):
    run(node)
    node.packages[KERNEL_DKMS] = ("iHR", "25.07")
    run(node, "inbox")
    assert node.said(f"dpkg --force-remove-reinstreq --force-depends --purge {KERNEL_DKMS}")
    assert not run(node, "inbox")["changed"]


def test_journal_of_dpkg_that_was_cut_is_ended(node: AptNode):
    node.put("/var/lib/dpkg/updates/0002")
    configure = node._configure

    def end(argv: list[str]) -> str:
        node.remove("/var/lib/dpkg/updates/0002")
        return configure(argv)

    node.programs["env DEBIAN_FRONTEND=noninteractive dpkg --configure -a"] = end
    result = run(node, "inbox")
    assert [each["seen"] for each in result["changes"]] == ["halfway: the manager's own journal"]
    assert not run(node, "inbox")["changed"]


def test_headers_that_do_not_come_with_their_package_are_named(node: AptNode):
    node.no_link = True
    with pytest.raises(NodeError, match=rf"linux-headers-{KERNEL} is installed, but /lib/modules"):
        run(node)
    assert "doca-ofed" not in node.packages


def test_removal_that_was_cut_is_repaired(node: AptNode):
    run(node, "mlnx_ofed")
    del node.packages["mlnx-ofed-all"]  # and no more
    run(node)
    assert node.packages["doca-ofed"][0] == "ii"
    assert node.packages[KERNEL_DKMS][1].startswith("25.07")
    assert not run(node)["changed"]
