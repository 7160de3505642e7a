"""Packages of the Red Hat family: by real dnf and rpm into a root, and what the role asks."""

import shutil
import subprocess
from pathlib import Path

import pytest
from plugins.module_utils import packages
from plugins.module_utils.machine import CommandFailed, Machine, NodeError
from plugins.module_utils.ofed import vendor, vendor_repository
from plugins.module_utils.ofed.work import exchange
from plugins.module_utils.packages import Offer, dnf
from plugins.module_utils.packages.dnf import Dnf
from plugins.module_utils.packages.manager import Repository
from plugins.module_utils.plan import Refused
from tests.roles.fake import FakeMachine
from tests.tables import cases

NEEDED = ("dnf", "rpm", "rpmbuild", "createrepo_c")
SPEC = cases(__file__, "spec")
# What the vendor's package does is a mark here.
BURN = "%post -p <lua>\nlocal f = io.open('/burned', 'w'); f:close()"
PACKAGES = (
    ("mlnx-fw-updater", "25.10", f"%description -n none\n{BURN}"),
    ("doca-ofed", "3.1.0", "Recommends: mlnx-fw-updater"),
    ("doca-roce", "3.1.0", "Requires: mlnx-fw-updater"),
    ("opensm", "5.17", "Conflicts: slurm"),
    ("slurm", "23.02", ""),
    ("opensm-tools", "5.17", "Obsoletes: lustre-client < 3"),
    ("lustre-client", "2.15", ""),
    ("perftest", "1", ""),
    ("perftest", "2", "Conflicts: lustre-client"),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not all(map(shutil.which, NEEDED)):
        pytest.skip(f"needs {', '.join(NEEDED)}")
    place = tmp_path_factory.mktemp("rpm")
    for name, version, more in PACKAGES:
        head, _, post = more.partition("%description -n none\n")
        spec = place / f"{name}-{version}.spec"
        spec.write_text(SPEC.format(name=name, version=version, more=head) + post + "\n")
        defined = [f"_rpmdir {place}/repository", f"_topdir {place}/top"]
        options = [word for each in defined for word in ("--define", each)]
        subprocess.run(["rpmbuild", "-bb", "--quiet", *options, str(spec)], check=True)
    subprocess.run(["createrepo_c", "-q", str(place / "repository")], check=True)
    return place / "repository"


class Installroot(Machine):
    """A root of this machine's dnf; nothing outside of it is changed."""

    repository: Path

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        more = {
            "dnf": [
                f"--installroot={self.root}",
                f"--repofrompath=made,{self.repository}",
                "--repo=made",
                "--nogpgcheck",
                "--releasever=9",
                f"--setopt=cachedir={self.root}/cache",
                f"--config={self.root}/etc/dnf/dnf.conf",
            ],
            "rpm": [f"--root={self.root}"],
        }
        words = [word for each in argv for word in (each, *more.get(each, []))]
        return super().run(words, stdin, timeout_s)


@pytest.fixture(scope="module")
def installed(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a root with lustre-client, to copy: dnf takes half a second to make one."""
    made = Installroot(str(tmp_path_factory.mktemp("root")))
    made.repository = repository
    made.write("/etc/dnf/dnf.conf", "[main]\n")
    made.run(["dnf", "-q", "-y", "--exclude=opensm-tools", "install", "lustre-client"])
    return Path(made.root)


@pytest.fixture
def node(repository: Path, installed: Path, tmp_path: Path) -> Installroot:
    made = Installroot(str(shutil.copytree(installed, tmp_path / "root", symlinks=True)))
    made.repository = repository
    return made


def offer(name: str, version: str) -> Offer:
    return Offer(name, f"0:{version}-1", "made")


def install(node: Installroot, *offers: Offer, burns: bool = False) -> Dnf:
    manager = Dnf(node)
    manager.burns = burns
    exchange(node, manager, [], list(offers))
    return manager


def test_firmware_is_not_burned_by_what_comes_along(node: Installroot):
    manager = install(node, offer("doca-ofed", "3.1.0"))
    assert {*manager.installed()} == {"lustre-client", "doca-ofed"}
    assert not node.exists("/burned")


def test_package_that_needs_the_burning_one_is_refused(node: Installroot):
    with pytest.raises(Refused, match=r"burns firmware on .*Write ofed_firmware: update"):
        install(node, offer("doca-roce", "3.1.0"))
    assert {*Dnf(node).installed()} == {"lustre-client"}


@pytest.mark.parametrize("name", ["doca-ofed", "doca-roce"])
def test_firmware_is_burned_where_the_site_wants_it(node: Installroot, name: str):
    install(node, offer(name, "3.1.0"), offer("mlnx-fw-updater", "25.10"), burns=True)
    assert node.exists("/burned")


@pytest.mark.parametrize("name", ["opensm-tools", "perftest"])
def test_nothing_else_is_removed(node: Installroot, name: str):
    """One package obsoletes another's; one that is replaced may be installed by erasing."""
    if name == "perftest":
        install(node, offer(name, "1"))
    before = {*Dnf(node).installed()}
    with pytest.raises(Refused, match="lustre-client would also be removed"):
        install(node, offer(name, "2" if name == "perftest" else "5.17"))
    assert {*Dnf(node).installed()} == before


def test_conflict_is_told_where_nothing_is_replaced(node: Installroot):
    install(node, offer("slurm", "23.02"))
    with pytest.raises(NodeError, match=r"dnf cannot do this: .*opensm.* conflicts with slurm"):
        install(node, offer("opensm", "5.17"))
    assert "slurm" in Dnf(node).installed()


def test_what_is_asked_for_is_removed_and_installed(node: Installroot):
    exchange(node, Dnf(node), ["opensm"], [])  # it is not there
    install(node, offer("perftest", "1"))
    with pytest.raises(Refused, match="lustre-client would also"):
        exchange(node, Dnf(node), [], [offer("perftest", "2")])
    exchange(node, Dnf(node), ["lustre-client"], [offer("perftest", "2")])
    assert {name: each.version for name, each in Dnf(node).installed().items()} == {
        "perftest": "0:2-1"
    }


@pytest.mark.parametrize("key", ["exclude", "excludepkgs"])
def test_excluded_packages_are_held_and_told(node: Installroot, key: str):
    node.write("/etc/dnf/dnf.conf", f"[main]\n{key}=kernel*, lustre*\n  doca-o*\n")
    assert Dnf(node).held() == {"lustre-client"}
    with pytest.raises(NodeError, match=r"doca-ofed.*\(exclude= or excludepkgs= in /etc/dnf/dnf"):
        install(node, offer("doca-ofed", "3.1.0"))


@pytest.mark.parametrize(
    ("pattern", "is_held"), cases(__file__, "exclude_holds_by_each_form_that_dnf_knows")
)
def test_exclude_holds_by_each_form_that_dnf_knows(node: Installroot, pattern: str, is_held: bool):
    """As dnf itself does: it then offers the package no more."""
    for path in ("/etc/dnf/dnf.conf", "/etc/dnf/libdnf5.conf.d/20-site.conf"):
        node.write("/etc/dnf/dnf.conf", "[main]\n")
        node.write(path, f"[main]\nexcludepkgs={pattern}\n")
        assert Dnf(node).held() == ({"lustre-client"} if is_held else set())
    node.write("/etc/dnf/dnf.conf", f"[main]\nexcludepkgs={pattern}\n")
    assert bool(node.run(["dnf", "-q", "repoquery", "lustre-client"])) != is_held


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
    ("source", "version", "release"), cases(__file__, "vendors_repository_of_a_red_hat_release")
)
def test_vendors_repository_of_a_red_hat_release(tmp_path, source, version, release):
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
