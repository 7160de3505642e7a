"""Where the RDMA drivers come from: repository, version, signing key, archive."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from plugins.module_utils.machine import NodeError
from plugins.module_utils.ofed import vendor_repository
from plugins.module_utils.ofed.vendor_repository import CANDIDATE_KEY
from plugins.module_utils.packages.apt import Apt
from plugins.module_utils.plan import Refused
from tests.roles import apt_node
from tests.roles.apt_node import MLNX, AptNode
from tests.roles.ofed_node import FINGERPRINT, FIXTURES, devices, run

RSA2048 = "3A29178F15D862277467410996CBD0A3AB0F0E84"  # of rsa2048.asc


@pytest.fixture
def node(tmp_path: Path) -> AptNode:
    return AptNode.made(tmp_path / "node")


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
    other = run(
        node, repository_key_url=str(FIXTURES / "rsa2048.asc"), repository_key_fingerprint=""
    )
    assert devices(other) == [Apt.repository_file]
    assert (node.read(Apt.key_file) or "") == (FIXTURES / "rsa2048.asc").read_text()


def test_unknown_distribution_needs_a_repository(node: AptNode):
    node.put("/etc/os-release", "ID=arch\n")
    with pytest.raises(Refused, match="no repository for arch"):
        run(node, repository_url="")


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
    monkeypatch.setitem(apt_node.OFFERS, url, apt_node.OFFERS[MLNX])
    result = run(node, "mlnx_ofed", **given, package_sha256=sha256)
    assert devices(result) == [str(path), Apt.repository_file, "mlnx-ofed-all"]
    assert (node.read(Apt.repository_file) or "").endswith(f"\ndeb [trusted=yes] {url} ./\n")
    assert not run(node, "mlnx_ofed", **given, package_sha256=sha256)["changed"]
