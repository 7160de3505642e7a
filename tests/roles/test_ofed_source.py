"""The RDMA drivers' source (repository, key, archive), and their modules for each kernel."""

import base64
import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
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
from tests.roles.apt_node import KERNEL, KERNEL_DKMS, MLNX, AptNode
from tests.roles.fake import FakeMachine
from tests.roles.ofed_node import FINGERPRINT, FIXTURES, STALE, arguments, devices, run

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


OTHER_KEY = "a known key of the vendor; for another one, write its ofed_repository_key_fingerprint"


@pytest.mark.parametrize(
    ("given", "expected"), [({}, "1775AF91"), ({"repository_key_fingerprint": ""}, OTHER_KEY)]
)
def test_key_with_another_fingerprint_is_not_written(node: AptNode, given, expected):
    with pytest.raises(NodeError, match=rf"rsa2048.asc: key 3A29178F\w+, expected {expected}"):
        run(node, repository_key_url=str(FIXTURES / "rsa2048.asc"), **given)
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


def archive(path: Path) -> str:
    with tarfile.open(path, "w:gz") as file:
        file.addfile(tarfile.TarInfo("MLNX_OFED_LINUX-24.10/DEBS/Packages.gz"), io.BytesIO())
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_archive_becomes_a_repository_if_its_checksum_is_right(node, tmp_path, monkeypatch):
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


KEY = b"\x04" + bytes(11)
KEY_PACKET = bytes([0xC6, len(KEY)]) + KEY  # a public key, new format


def armor(data: bytes) -> str:
    text = base64.b64encode(data).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{text}\n-----END PGP PUBLIC KEY BLOCK-----\n"


def test_key_of_made_up_packets_is_found():
    assert len(vendor_repository.fingerprints(armor(KEY_PACKET * 2))) == 2


@pytest.mark.parametrize(
    ("packet", "says"),
    [
        # A literal packet whose first part has 512 bytes: read as five octets of length, it
        # would have swallowed the second key.
        (bytes([0xCB, 0xE9]) + bytes(512) + b"\x00", "partial length"),
        (bytes([0xA3]) + bytes(16), "without a length"),
        (b"\xc6", "it is cut"),
        (bytes([0xC6, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]), "it is cut"),
    ],
)
def test_packet_that_could_hide_a_key_is_refused(packet: bytes, says: str):
    with pytest.raises(ValueError, match=says):
        vendor_repository.fingerprints(armor(KEY_PACKET + packet + KEY_PACKET))


class Endless(http.server.BaseHTTPRequestHandler):
    """Sends bytes until nobody reads them."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 20))
        except OSError:
            self.close_connection = True

    def log_message(self, *_words: object) -> None:
        """Print nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/archive.tgz"
    server.shutdown()


@pytest.mark.parametrize(
    ("limit", "value", "says"),
    [("FILE_BYTES", 5 << 20, "has more than 5242880 bytes"), ("FILE_TIMEOUT_S", 0.2, "took more")],
)
def test_archive_without_an_end_is_refused_and_nothing_is_left(
    machine: FakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    endless: str,
    limit: str,
    value: float,
    says: str,
):
    monkeypatch.setattr(vendor_repository, limit, value)
    with pytest.raises(NodeError, match=says):
        vendor_repository.file(
            machine, endless, hashlib.sha256().hexdigest(), "/var/lib/x/archive.tgz"
        )
    assert list(Path(machine.path("/var/lib/x")).iterdir()) == []


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
    assert [(each["seen"], each["wanted"]) for each in run(node)["changes"]] == [("none", "0x1a2b")]
    assert node.said(f"dkms build nvidia/575.57.08 -k {KERNEL} --force")
    assert not run(node)["changed"]


def test_cloud_kernel_is_refused_and_ubuntus_gets_its_modules(node: AptNode):
    node.put(f"/lib/modules/{KERNEL}/modules.dep", "kernel/ib_uverbs.ko:\nkernel/rdma_ucm.ko:\n")
    with pytest.raises(Refused, match=f"kernel {KERNEL} has no mlx5_ib; is it a cloud kernel"):
        run(node, "inbox")
    node.put("/etc/os-release", "ID=ubuntu\n")
    changes = converge(node, ofed, arguments("inbox"), check=True)["changes"]
    assert changes[0]["wanted"] == f"linux-modules-extra-{KERNEL}"
