"""The RDMA drivers: flavours, versions, keys, holds, what runs, and what was cut."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.converge import converge
from plugins.module_utils.machine import NodeError
from plugins.module_utils.ofed import vendor_repository
from plugins.module_utils.ofed.vendor_repository import CANDIDATE_KEY
from plugins.module_utils.packages.apt import Apt
from plugins.module_utils.plan import Refused
from plugins.module_utils.roles import ofed
from tests.roles import apt_node
from tests.roles.apt_node import DOCA, KERNEL, KERNEL_DKMS, MLNX, AptNode, made
from tests.roles.ofed_node import FINGERPRINT, FIXTURES, KEY, arguments, devices, run

RSA2048 = "3A29178F15D862277467410996CBD0A3AB0F0E84"  # of rsa2048.asc
STALE = "/var/lib/rdmaprov/ofed-initramfs"


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return made(str(tmp_path / "node"))


def test_factory_node_gets_the_vendors_drivers(node: AptNode):
    result = run(node)
    assert devices(result) == [Apt.key_file, Apt.repository_file, "doca-ofed"]
    assert [each.partition(":")[0] for each in result["interrupts"]] == ["RDMA drivers"]
    assert result["reboot"] == []
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")
    lines = (node.read(Apt.repository_file) or "").splitlines()
    assert lines[1:] == [f"# Signed by {KEY}", f"deb [signed-by={Apt.key_file}] {DOCA} ./"]
    assert node.holds == {"doca-ofed", KERNEL_DKMS, "ofed-scripts", "rdma-core",
                          "linux-image-amd64", f"linux-headers-{KERNEL}"}  # fmt: skip
    assert node.said("update-initramfs -u -k", KERNEL)
    assert not node.exists(STALE)
    assert not run(node)["changed"]


def test_check_mode_on_a_bare_node_changes_nothing(node: AptNode):
    before = dict(node.packages)
    assert converge(node, ofed, arguments(), check=True)["changed"]
    assert node.packages == before
    assert not node.exists(Apt.repository_file)
    assert not node.exists("/var/lib/rdmaprov")


def test_factory_node_has_the_kernels_own_drivers(node: AptNode):
    assert not run(node, "inbox")["changed"]
    assert not node.holds


def test_lost_tool_is_installed(node: AptNode):
    del node.packages["rdma-core"]
    result = run(node, "inbox")
    assert [change["seen"] for change in result["changes"]] == ["absent: rdma-core"]
    assert result["interrupts"] == []
    assert node.packages["rdma-core"] == ("ii", "44.0-2")


def test_tool_that_no_repository_has_is_named(node: AptNode):
    del node.packages["perftest"]
    with pytest.raises(Refused, match="perftest: no repository of the node has it"):
        run(node, "inbox")


def test_other_flavour_is_removed_first(node: AptNode):
    run(node, "mlnx_ofed")
    node.ran.clear()
    result = run(node)
    assert result["changes"][-1]["seen"] == "mlnx_ofed"
    removed, installed = node.said(" remove ")[0], node.said(" install ", "doca-ofed=3.1.0")[-1]
    assert node.ran.index(removed) < node.ran.index(installed)
    assert f"mlnx-ofed-all {KERNEL_DKMS} ofed-scripts" in removed
    assert "rdma-core=2507mlnx58-1.2507097" in installed
    assert "mlnx-ofed-all" not in node.packages
    assert not run(node)["changed"]


@pytest.mark.parametrize("source", ["doca", "mlnx_ofed"])
def test_keep_leaves_a_vendors_drivers(node: AptNode, source: str):
    run(node, source)
    packages, holds = dict(node.packages), set(node.holds)
    result = run(node, "keep")
    assert not result["changed"]
    assert source in result["notes"][0]
    assert (node.packages, node.holds) == (packages, holds)
    assert node.exists(Apt.repository_file)


def test_keep_leaves_a_vendors_drivers_that_no_package_brought(node: AptNode):
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-24.10-1.1.4.0:\n"
    result = run(node, "keep")
    assert (result["changed"], result["notes"]) == (
        False,
        ["RDMA drivers: mlnx_ofed 24.10-1.1.4.0 stays (ofed_source: keep)"],
    )


def test_keep_installs_tools_where_no_vendor_is(node: AptNode):
    del node.packages["rdma-core"]
    assert [change["seen"] for change in run(node, "keep")["changes"]] == ["absent: rdma-core"]
    assert not run(node, "keep")["changed"]


def test_keep_has_no_version(node: AptNode):
    with pytest.raises(Refused, match="ofed_source: keep has no version"):
        run(node, "keep", version="3.1.0")


def test_way_back_to_the_kernels_own_drivers(node: AptNode):
    run(node)
    result = run(node, "inbox")
    assert "doca" in [change["seen"] for change in result["changes"]]
    assert [each.partition(":")[0] for each in result["interrupts"]] == ["RDMA drivers"]
    assert not {"doca-ofed", KERNEL_DKMS, "ofed-scripts"} & set(node.packages)
    assert node.packages["rdma-core"] == ("ii", "44.0-2")
    assert not node.exists(Apt.repository_file)
    assert not node.exists(Apt.key_file)
    assert not node.holds
    assert not node.exists("/var/lib/rdmaprov/ofed-holds.json")
    assert not run(node, "inbox")["changed"]


def test_package_that_would_go_along_stops_it(node: AptNode):
    run(node)
    node.packages["lustre-client"] = ("ii", "2.15")
    node.dependents["lustre-client"] = KERNEL_DKMS
    with pytest.raises(Refused, match="lustre-client would also be removed"):
        run(node, "inbox")
    assert node.packages["doca-ofed"] == ("ii", "3.1.0-091513")


@pytest.mark.parametrize(
    ("lose", "device"),
    [
        (lambda node: node.remove(Apt.key_file), Apt.key_file),
        (lambda node: node.put(Apt.repository_file, "deb [trusted=yes] http://x ./\n"),
         Apt.repository_file),
        (lambda node: node.packages.update({"doca-ofed": ("ii", "3.1.01-1")}), "doca-ofed"),
        (lambda node: node.packages.pop("doca-ofed"), "doca-ofed"),
        (lambda node: node.remove(f"/lib/modules/{KERNEL}/build/Makefile"), "doca-ofed"),
        (lambda node: next(iter(node.dkms.values())).clear(), f"kernel {KERNEL}"),
        (lambda node: node.holds.discard(KERNEL_DKMS), "packages"),
        (lambda node: node.put(STALE), "initramfs"),
        (lambda node: node.packages.update({"ofed-scripts": ("iU", "25.07.OFED.25-1")}),
         "packages"),
    ],
)  # fmt: skip
def test_each_part_is_seen_alone(node: AptNode, lose: Any, device: str):
    run(node)
    lose(node)
    assert devices(run(node)) == [device]
    assert not run(node)["changed"]


def test_own_hold_of_an_administrator_stays(node: AptNode):
    node.holds = {"linux-image-amd64", "vim"}
    run(node)
    run(node, hold=False)
    assert node.holds == {"linux-image-amd64", "vim"}


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


def test_version_that_the_repository_lacks_is_refused_before_anything(node: AptNode):
    run(node, "mlnx_ofed")
    with pytest.raises(NodeError, match=r"has 3.1.0-091513, expected doca-ofed 3.9.9"):
        run(node, version="3.9.9")
    assert node.packages["mlnx-ofed-all"][0] == "ii"
    assert MLNX in (node.read(Apt.repository_file) or "")


def test_key_with_another_fingerprint_is_not_written(node: AptNode):
    with pytest.raises(NodeError, match=r"rsa2048.asc: key 3A29178F\w+, expected 1775AF91"):
        run(node, repository_key_url=str(FIXTURES / "rsa2048.asc"))
    assert not node.exists(Apt.key_file)


def test_key_that_is_not_the_vendor_s_needs_its_fingerprint(node: AptNode):
    with pytest.raises(
        NodeError,
        match=r"rsa2048.asc: key 3A29178F\w+, expected a known key of the vendor; for another one, "
        r"write its ofed_repository_key_fingerprint",
    ):
        run(node, repository_key_url=str(FIXTURES / "rsa2048.asc"), repository_key_fingerprint="")
    assert not node.exists(Apt.key_file)


def test_keys_of_the_vendor_need_no_fingerprint(monkeypatch: pytest.MonkeyPatch):
    text = (FIXTURES / "rsa2048.asc").read_text()
    assert vendor_repository.key_problem(text, "") == f"key {RSA2048}"
    monkeypatch.setattr(vendor_repository, "VENDORS_KEYS", (RSA2048,))
    assert vendor_repository.key_problem(text, "") == ""
    other = (FIXTURES / "ed25519.asc").read_text()
    assert vendor_repository.key_problem(text + other, "").startswith("key ")


def test_repository_that_another_key_signed_is_not_kept(node: AptNode):
    node.unsigned = True
    with pytest.raises(
        NodeError, match="signed by key 96CBD0A3AB0F0E84, which ofed_repository_key"
    ):
        run(node)
    assert not node.exists(Apt.repository_file)
    assert not node.exists(Apt.key_file)
    assert not node.exists(CANDIDATE_KEY)
    assert "doca-ofed" not in node.packages


def test_key_from_another_place_is_taken(node: AptNode, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vendor_repository, "VENDORS_KEYS", (FINGERPRINT, RSA2048))
    run(node)
    other = run(node, repository_key_url=str(FIXTURES / "rsa2048.asc"),
                repository_key_fingerprint="")  # fmt: skip
    assert devices(other) == [Apt.repository_file]
    assert (node.read(Apt.key_file) or "") == (FIXTURES / "rsa2048.asc").read_text()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"source": "inbox", "version": "3.1.0"}, "ofed_source: inbox has no version"),
        ({"version": ""}, "'' is not a version of doca; write one, such as 3.1.0"),
        ({"source": "mlnx_ofed", "version": "24.10"}, "write one, such as 24.10-1.1.4.0"),
        ({"repository_url": "mirror/doca"}, "'mirror/doca' is neither a URL nor a path"),
        ({"repository_url": "http://a ] x"}, "is neither a URL nor a path"),
        ({"repository_key_fingerprint": "12AB"}, "does not have 40 hexadecimal digits"),
        ({"repository_key_fingerprint": "", "repository_key_url": "http://a/b"}, "key over http"),
        ({"package_url": "/a.deb"}, "ofed_repository_url is set too"),
        ({"package_url": "/a.deb", "repository_url": ""}, "without ofed_package_sha256"),
        ({"package_sha256": "12"}, "does not have 64 hexadecimal digits"),
    ],
)
def test_wrong_value_is_refused_before_anything_is_written(
    node: AptNode, given: dict[str, Any], message: str
):
    with pytest.raises(Refused, match=message):
        converge(node, ofed, {**arguments(), **given}, check=True)


def test_unknown_distribution_needs_a_repository(node: AptNode):
    node.put("/etc/os-release", "ID=arch\n")
    with pytest.raises(Refused, match="no repository for arch"):
        run(node, repository_url="")


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


def test_ofed_without_packages_is_uninstalled(node: AptNode):
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-5.8-2.0.3.0:"
    with pytest.raises(Refused, match=r"ofed_info shows mlnx_ofed 5.8-2.0.3.0, but neither"):
        run(node, "inbox")

    def uninstall(argv: list[str]) -> str:
        assert argv[1:] == ["--force"]
        del node.programs["ofed_info"]
        return ""

    node.programs["ofed_uninstall.sh"] = uninstall
    assert run(node, "inbox")["changed"]
    assert node.said("ofed_uninstall.sh --force")


def test_tools_of_another_version_than_the_packages_are_refused(node: AptNode):
    run(node, "mlnx_ofed")
    node.programs["ofed_info"] = "MLNX_OFED_LINUX-5.8-2.0.3.0:"
    with pytest.raises(Refused, match=r"says mlnx_ofed 5.8-2.0.3.0, expected mlnx_ofed 24.10"):
        run(node, "mlnx_ofed")


def test_driver_that_no_package_brought_is_refused(node: AptNode):
    node.dkms["24.10.OFED.24.10.1.1.4.1"] = {KERNEL}
    with pytest.raises(
        Refused, match=r"mlx5_core is /lib/modules/.*/updates/dkms/mlx5_core.ko, not"
    ):
        run(node, "inbox")


def test_cloud_kernel_is_refused_and_ubuntus_gets_its_modules(node: AptNode):
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n")
    with pytest.raises(Refused, match=f"kernel {KERNEL} has no mlx5_ib; is it a cloud kernel"):
        run(node, "inbox")
    node.put("/etc/os-release", "ID=ubuntu\n")
    changes = converge(node, ofed, arguments("inbox"), check=True)["changes"]
    assert changes[0]["wanted"] == f"linux-modules-extra-{KERNEL}"


def archive(path: Path) -> str:
    """Make an archive with a repository as MLNX_OFED's has it; return its SHA-256."""
    with tarfile.open(path, "w:gz") as file:
        file.addfile(tarfile.TarInfo("MLNX_OFED_LINUX-24.10/DEBS/Packages.gz"), io.BytesIO())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_archive_becomes_a_repository_if_its_checksum_is_right(
    node: AptNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "MLNX_OFED_LINUX-24.10.tgz"
    sha256 = archive(path)
    given: dict[str, Any] = {"repository_url": "", "package_url": str(path)}

    def unpack(argv: list[str]) -> str:
        subprocess.run(argv, check=True)
        return ""

    node.programs["tar"] = unpack
    with pytest.raises(NodeError, match=f"has SHA-256 {sha256}, expected {'0' * 64}"):
        run(node, "mlnx_ofed", **given, package_sha256="0" * 64)
    assert not node.exists(Apt.repository_file)
    url = f"file:///var/lib/rdmaprov/ofed/{sha256}/repository/"
    monkeypatch.setitem(apt_node.OFFERS, url,
                        apt_node.OFFERS[MLNX])  # fmt: skip
    result = run(node, "mlnx_ofed", **given, package_sha256=sha256)
    assert devices(result) == [str(path), Apt.repository_file, "mlnx-ofed-all"]
    assert (node.read(Apt.repository_file) or "").endswith(f"\ndeb [trusted=yes] {url} ./\n")
    assert not run(node, "mlnx_ofed", **given, package_sha256=sha256)["changed"]


def test_record_of_holds_names_ours(node: AptNode):
    node.holds = {"linux-image-amd64"}
    run(node)
    ours = json.loads(node.read("/var/lib/rdmaprov/ofed-holds.json") or "")
    assert "doca-ofed" in ours
    assert "linux-image-amd64" not in ours
