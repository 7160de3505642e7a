"""Packages by real dnf and rpm, from a repository that is made here, into a root of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from plugins.module_utils.machine import Machine, NodeError
from plugins.module_utils.ofed.work import exchange
from plugins.module_utils.packages import Offer
from plugins.module_utils.packages.dnf import Dnf
from plugins.module_utils.plan import Refused

NEEDED = ("dnf", "rpm", "rpmbuild", "createrepo_c")
SPEC = """\
Name: {name}
Version: {version}
Release: 1
Summary: Made by a test
License: MIT
BuildArch: noarch
{more}
%description
Made by a test.
%files
"""
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


@pytest.fixture
def node(repository: Path, tmp_path: Path) -> Installroot:
    """Provide a root with lustre-client."""
    made = Installroot(str(tmp_path))
    made.repository = repository
    made.write("/etc/dnf/dnf.conf", "[main]\n")
    made.run(["dnf", "-q", "-y", "--exclude=opensm-tools", "install", "lustre-client"])
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
