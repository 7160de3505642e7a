"""What the programs around the RDMA drivers print on Debian and Ubuntu."""

from pathlib import Path

import pytest
from plugins.module_utils import packages
from plugins.module_utils.machine import CommandFailed, NodeError
from plugins.module_utils.ofed import dkms, ofed_info, package_names, vendor_repository
from plugins.module_utils.ofed.ofed_info import Info
from plugins.module_utils.packages import Offer, Package, apt, manager
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.tables import cases

from rdmaprov.facts import software

KEYS = Path(__file__).parents[1] / "fixtures" / "openpgp"


# As public guides, logs and issues of the last years show them.
@pytest.mark.parametrize(
    ("line", "flavour", "version"), cases(__file__, "ofed_info_has_many_shapes")
)
def test_ofed_info_has_many_shapes(line: str, flavour: str, version: str):
    assert ofed_info.parse(line) == Info(flavour, version)
    seen = software.parse_ofed(line)  # the suite's own
    assert (seen.flavour, seen.version) == (flavour, version)


@pytest.mark.parametrize("line", ["", "OFED", "MLNX_OFED_LINUX-:", "ofed_info: not found"])
def test_what_is_no_version_is_an_error(line: str):
    with pytest.raises(ValueError, match="is not a version of an OFED"):
        ofed_info.parse(line)


def test_node_without_ofed_info_has_no_ofed(machine: FakeMachine):
    assert ofed_info.read(machine) is None
    machine.programs["ofed_info -s"] = "nonsense"
    with pytest.raises(NodeError, match="ofed_info -s says 'nonsense'"):
        ofed_info.read(machine)


@pytest.mark.parametrize(
    ("line", "source"), cases(__file__, "dkms_of_both_generations_is_understood")
)
def test_dkms_of_both_generations_is_understood(line: str, source: list[str]):
    assert dkms.parse(line) == [dkms.Source("mlnx-ofed-kernel", "25.07.OFED", frozenset(source))]


@pytest.mark.parametrize(("status", "whole"), cases(__file__, "package_that_is_halfway_is_seen"))
def test_package_that_is_halfway_is_seen(status: str, whole: bool):
    text = f"{status}\tmft\t4.30\nrc \told\t1\nun \tnever\t\n"
    assert apt.statuses(text) == {"mft": Package("mft", "4.30", whole)}


def test_offers_of_apt_name_their_repository():
    text = (
        " doca-ofed | 3.1.0-091513 | http://10.0.2.2:8000 ./ Packages\n"
        " rdma-core |     44.0-2 | http://mirror.example/debian bookworm/main amd64 Packages\n"
        " rdma-core |     44.0-2 | http://mirror.example/debian bookworm/main Sources\n"
    )
    assert apt.madison(text) == [
        Offer("doca-ofed", "3.1.0-091513", "http://10.0.2.2:8000"),
        Offer("rdma-core", "44.0-2", "http://mirror.example/debian"),
    ]


@pytest.mark.parametrize(("said", "locked"), cases(__file__, "complaint_about_the_lock_is_told"))
def test_complaint_about_the_lock_is_told(said: str, locked: bool):
    assert apt.is_locked(said) is locked


def test_holder_of_the_lock_is_named(machine: FakeMachine):
    lock = "/var/lib/dpkg/lock-frontend"
    machine.put(lock)
    inode = Path(machine.path(lock)).stat().st_ino
    machine.put("/proc/locks", f"1: POSIX  ADVISORY  WRITE 812 fe:01:{inode} 0 EOF\n")
    machine.put("/proc/812/comm", "unattended-upgr\n")
    complaint = CommandFailed(["apt-get"], 100, "E: Unable to acquire the dpkg frontend lock")
    machine.programs["env"] = complaint
    with pytest.raises(NodeError, match=r"locked by process 812 \(unattended-upgr\) for more"):
        apt.Apt(machine).change(["x"], [])
    machine.put("/proc/locks", "")
    with pytest.raises(NodeError, match=r"locked by another process for more"):
        apt.Apt(machine).change(["x"], [])


def test_indexes_that_cannot_be_read_are_named(machine: FakeMachine):
    machine.programs["env"] = CommandFailed(["apt-get"], 100, "E: Failed to fetch x")
    with pytest.raises(NodeError, match="indexes cannot be read: E: Failed to fetch x"):
        apt.Apt(machine).distribution(["x"])


@pytest.mark.parametrize(("said", "where"), cases(__file__, "full_disk_is_named"))
def test_full_disk_is_named(said: str, where: str):
    assert str(manager.disk_full(said)).startswith(f"{where}: the disk is full")


@pytest.mark.parametrize(
    ("version", "wanted", "same"), cases(__file__, "build_of_a_version_is_one")
)
def test_build_of_a_version_is_one(version: str, wanted: str, same: bool):
    assert manager.matches(version, wanted) is same


@pytest.mark.parametrize(
    ("name", "version", "vendors"),
    cases(__file__, "vendors_packages_are_told_from_the_distributions"),
)
def test_vendors_packages_are_told_from_the_distributions(name: str, version: str, vendors: bool):
    assert package_names.is_vendors(Package(name, version)) is vendors


@pytest.mark.parametrize(
    ("names", "flavours"),
    [
        (["rdma-core"], set()),
        (["doca-ofed", "mlnx-ofed-kernel-dkms"], {"doca"}),
        (["mlnx-ofed-all", "mlnx-ofed-kernel-dkms"], {"mlnx_ofed"}),
        (["mlnx-ofed-kernel-dkms"], {"unknown"}),
    ],
)
def test_flavour_is_told_by_packages(names: list[str], flavours: set[str]):
    assert package_names.flavours({name: Package(name, "1") for name in names}) == flavours


def test_drivers_kernel_and_gpu_driver_are_held_together():
    names = [
        *("doca-ofed", "linux-image-amd64", "linux-headers-6.1.0-41-amd64", "vim", "nvidia-driver"),
        *("libnvidia-ml1", "linux-libc-dev", "linux-base"),
    ]
    assert package_names.to_hold({name: Package(name, "1") for name in names}) == [
        "doca-ofed",
        "libnvidia-ml1",
        "linux-headers-6.1.0-41-amd64",
        "linux-image-amd64",
        "nvidia-driver",
    ]


def test_fingerprints_are_those_that_gpg_prints():
    ed25519 = "1775AF9104C401000799F1DA1747D561560BDC66"
    rsa2048 = "3A29178F15D862277467410996CBD0A3AB0F0E84"
    texts = [(KEYS / f"{name}.asc").read_text() for name in ("ed25519", "rsa2048")]
    assert vendor_repository.fingerprints(texts[0]) == [ed25519]
    assert vendor_repository.fingerprints(texts[1].replace("\n", "\r\n")) == [rsa2048]
    assert vendor_repository.fingerprints("".join(texts)) == [ed25519, rsa2048]
    with_headers = texts[0].replace("BLOCK-----\n\n", "BLOCK-----\nVersion: GnuPG v2\n\n")
    assert vendor_repository.fingerprints(with_headers) == [ed25519]


@pytest.mark.parametrize("text", ["", "<html>", "\x99\x01", "-----BEGIN PGP PUBLIC KEY BLOCK-----"])
def test_what_is_no_key_is_an_error(text: str):
    with pytest.raises(ValueError, match="no armored OpenPGP public key"):
        vendor_repository.fingerprints(text)


def test_key_that_was_cut_is_an_error():
    text = (KEYS / "rsa2048.asc").read_text().splitlines(keepends=True)
    with pytest.raises(ValueError, match=r"it is cut|damaged"):
        vendor_repository.fingerprints("".join(text[:4] + text[-1:]))


def test_node_without_a_known_manager_is_refused(machine: FakeMachine):
    with pytest.raises(Refused, match="neither apt-get nor dnf"):
        packages.of(machine)
