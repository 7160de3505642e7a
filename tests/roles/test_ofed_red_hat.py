"""The RDMA drivers' packages on the Red Hat family: rpm, dnf and the vendor's repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugins.module_utils import packages
from plugins.module_utils.machine import CommandFailed
from plugins.module_utils.ofed import vendor, vendor_repository
from plugins.module_utils.packages import Offer, dnf
from plugins.module_utils.packages.manager import Repository
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine


@pytest.fixture
def rhel(machine: FakeMachine) -> FakeMachine:
    """Provide a node of the Red Hat family: its commands only, never run for real."""
    machine.programs = {
        "dnf": "",
        "dnf -q -y versionlock list": "kernel-0:5.14.0-427.el9.*\ndoca-ofed-0:3.1.0-1.*\n",
        "rpm -qa": "kernel-core\t0:5.14.0-427.el9\npython3-dnf-plugin-versionlock\t0:4-1.el9\n",
        "rpm -e --test": "",
    }
    return machine


def test_dnf_reads_what_rpm_has(rhel: FakeMachine):
    found = packages.of(rhel)
    assert found.installed()["kernel-core-5.14.0-427.el9"].version == "0:5.14.0-427.el9"
    assert found.held() == {"kernel", "doca-ofed"}
    assert found.headers("5.14.0-427.el9.x86_64") == "kernel-devel-5.14.0-427.el9"


def test_dnf_verifies_signatures(rhel: FakeMachine):
    text = packages.of(rhel).repository(Repository("https://mirror/doca/", "/etc/pki/key"))
    assert "gpgcheck=1\ngpgkey=file:///etc/pki/key\n" in text
    assert "gpgcheck=0\n" in packages.of(rhel).repository(Repository("file:///srv", ""))


def test_dnf_asks_a_repository_for_versions(rhel: FakeMachine):
    rhel.programs["dnf -q -y --disablerepo=*"] = (
        "doca-ofed\t0:3.0.0-1.el9\trdmaprov-ofed\ndoca-ofed\t0:3.1.0-1.el9\trdmaprov-ofed\n"
    )
    found = packages.of(rhel).offers(Repository("https://mirror/", "/key"), ["doca-ofed"])
    assert [offer.version for offer in found] == ["0:3.1.0-1.el9", "0:3.0.0-1.el9"]
    printed = "kernel-devel\t0:5.14.0-4.el9\tbaseos\n"
    kernel = dnf.parse_offers(printed, ["kernel-devel-5.14.0-4.el9"])
    assert kernel == [Offer("kernel-devel-5.14.0-4.el9", "0:5.14.0-4.el9", "baseos")]


def test_dnf_changes_by_exact_versions(rhel: FakeMachine):
    offers = [Offer("doca-ofed", "0:3.1.0-1.el9", ""), Offer("kernel-devel-5.1-4", "0:5.1-4", "")]
    packages.of(rhel).change(["mlnx-ofed-all"], offers)
    *_, removed, installed = rhel.ran
    assert removed.endswith("remove mlnx-ofed-all")
    assert "clean_requirements_on_remove=False" in removed
    assert installed.endswith("install doca-ofed-0:3.1.0-1.el9 kernel-devel-5.1-4")


def test_dnf_names_what_would_go_along(rhel: FakeMachine):
    rhel.programs["rpm -e --test"] = CommandFailed(
        ["rpm"],
        1,
        "error: Failed dependencies:\n"
        "\tlibibverbs.so.1()(64bit) is needed by (installed) slurm-slurmd-23.02-1.el9.x86_64\n",
    )
    assert packages.of(rhel).lost_with(["rdma-core"], []) == ["slurm-slurmd"]
    assert packages.of(rhel).lost_with([], []) == []


def test_dnf_holds_by_versionlock(rhel: FakeMachine):
    found = packages.of(rhel)
    found.hold(["kernel"])
    found.release(["kernel"])
    assert "dnf -q -y versionlock add kernel" in rhel.ran
    assert "dnf -q -y versionlock delete kernel" in rhel.ran


@pytest.mark.parametrize(
    ("source", "version", "release"),
    [
        ("doca", "3.1.0", "rhel9.6"),
        ("doca", "2.9.3", "rhel9.6"),
        ("doca", "3.2.0", "rhel9"),
        ("doca", "3.10", "rhel9"),
        ("doca", "latest", "rhel9"),
        ("mlnx_ofed", "24.10-1.1.4.0", "rhel9.6"),
    ],
)
def test_vendors_repository_of_a_red_hat_release(
    tmp_path: Path, source: str, version: str, release: str
):
    node = FakeMachine(tmp_path)
    node.put("/etc/os-release", 'ID="rocky"\nVERSION_ID="9.6"\nID_LIKE="rhel centos fedora"\n')
    node.programs["uname"] = "x86_64\n"
    url = vendor_repository.vendors_url(node, source, version)
    assert url.endswith(f"/{source}/{version}/{release}/x86_64/")


@pytest.mark.parametrize(
    ("version", "is_needed"),
    [("3.1.0", False), ("2.10.0", False), ("3.2.0", True), ("3.10", True), ("latest", True)],
)
def test_dkms_of_another_repository_is_refused_before_anything(
    rhel: FakeMachine, monkeypatch: pytest.MonkeyPatch, version: str, is_needed: bool
):
    """From 3.2 on, DOCA has no modules that are built already; dkms is EPEL's."""
    manager = packages.of(rhel)
    arguments = {"source": "doca", "version": version, "profile": "doca-ofed"}
    origin = vendor_repository.Origin(Repository("https://mirror/", "/key"), "", "", "", "")
    offer = Offer("doca-ofed", "3.10" if version == "latest" else version, "made")
    monkeypatch.setattr(vendor, "_headers", lambda *_: {})
    monkeypatch.setattr(vendor, "exchange", lambda *_: exchanged.append(offer))
    monkeypatch.setattr(manager, "offers", lambda *_: [offer])
    monkeypatch.setattr(manager, "distribution", lambda _: [])
    exchanged: list[Offer] = []
    if is_needed:
        with pytest.raises(Refused, match=r"dkms, which no repository .* it is EPEL's"):
            vendor._install(rhel, manager, arguments, origin, [])
    else:
        vendor._install(rhel, manager, arguments, origin, [])
    assert bool(exchanged) is not is_needed
