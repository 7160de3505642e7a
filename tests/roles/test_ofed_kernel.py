"""The RDMA drivers' modules: compiled for each kernel, and for the GPU driver's symbols."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import ofed
from tests.roles.apt_node import KERNEL, KERNEL_DKMS, AptNode
from tests.roles.ofed_node import STALE, arguments, devices, run


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return AptNode.made(tmp_path / "node")


def test_kernel_that_dkms_cannot_compile_for_is_told(node: AptNode):
    node.broken_build = True
    why = r"x.c:3: error: kernel 6.1 is not supported \(/var/lib/dkms/.*make.log\). Boot a kernel"
    for _ in range(2):  # a second run tells it as well
        with pytest.raises(NodeError, match=why):
            run(node)
    run(node, "inbox")
    assert KERNEL_DKMS not in node.packages
    assert not run(node, "inbox")["changed"]


def test_newer_kernel_gets_its_modules(node: AptNode):
    run(node)
    node.put("/lib/modules/6.1.0-100-amd64/modules.dep")
    node.put("/lib/modules/6.1.0-100-amd64/build/Makefile")
    node.put("/boot/vmlinuz-6.1.0-100-amd64")
    assert devices(run(node)) == ["kernel 6.1.0-100-amd64"]
    assert not run(node)["changed"]


def test_kernel_without_headers_is_refused_before_packages_change(node: AptNode):
    node.put("/lib/modules/6.1.0-100-amd64/modules.dep")
    node.put("/boot/vmlinuz-6.1.0-100-amd64")
    with pytest.raises(Refused, match=r"no repository of the node has linux-headers-6.1.0-100"):
        run(node)
    assert "doca-ofed" not in node.packages
    assert not node.exists(STALE)


def test_gpu_driver_is_compiled_again_for_other_symbols(node: AptNode):
    run(node)
    symbol = "ib_register_peer_memory_client"
    node.put("/usr/src/ofa_kernel/default/Module.symvers", f"0x1a2b\t{symbol}\tib_core\tX\n")
    module, status = "/lib/modules/x/nvidia-peermem.ko", node._status
    gpu = f"\nnvidia/575.57.08, {KERNEL}, x86_64: installed"
    node.programs["dkms status"] = lambda argv: status(argv) + gpu
    node.programs[f"modinfo -k {KERNEL} -F filename nvidia-peermem"] = module
    node.programs["modprobe --dump-modversions"] = "0x9999\tib_unregister_peer_memory_client\n"

    def build(argv: list[str]) -> str:
        assert argv[2] == "nvidia/575.57.08"
        node.programs["modprobe --dump-modversions"] = f"0x1a2b\t{symbol}\n"
        return ""

    node.programs["dkms"] = build
    result = run(node)
    assert [(each["seen"], each["wanted"]) for each in result["changes"]] == [("none", "0x1a2b")]
    assert node.said(f"dkms build nvidia/575.57.08 -k {KERNEL} --force")
    assert not run(node)["changed"]


def test_cloud_kernel_is_refused_and_ubuntus_gets_its_modules(node: AptNode):
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n")
    with pytest.raises(Refused, match=f"kernel {KERNEL} has no mlx5_ib; is it a cloud kernel"):
        run(node, "inbox")
    node.put("/etc/os-release", "ID=ubuntu\n")
    changes = converge(node, ofed, arguments("inbox"), check=True)["changes"]
    assert changes[0]["wanted"] == f"linux-modules-extra-{KERNEL}"
