"""Packages by real apt and dpkg, from a repository that is made here, into a root of its own."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from plugins.module_utils.machine import Machine
from plugins.module_utils.ofed.work import exchange
from plugins.module_utils.packages import Offer
from plugins.module_utils.packages.apt import Apt
from plugins.module_utils.plan import Refused
from tests.tables import cases

CONTROL = cases(__file__, "control")
# What the vendor's package does is a mark here.
BURN = '#!/bin/sh\n[ "$1" != configure ] || echo "$2" > "$DPKG_ROOT/burned"\n'
PACKAGES = (
    ("mlnx-fw-updater", "24.10", ""),
    ("mlnx-fw-updater", "25.10", ""),
    ("doca-ofed", "3.1.0", "Depends: mlnx-fw-updater | mft\n"),
    ("doca-roce", "3.1.0", "Depends: mlnx-fw-updater\n"),
    ("doca-all", "3.1.0", "Depends: mlnx-fw-updater (>= 25)\n"),
    ("mft", "4.30", ""),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")) or os.geteuid():
        pytest.skip("needs root, apt-get and dpkg-deb")
    place = tmp_path_factory.mktemp("deb")
    index = ""
    for name, version, more in PACKAGES:
        tree = place / "tree"
        (tree / "DEBIAN").mkdir(parents=True)
        control = CONTROL.format(name=name, version=version) + more
        (tree / "DEBIAN/control").write_text(control)
        if name == "mlnx-fw-updater":
            (tree / "DEBIAN/postinst").write_text(BURN)
            (tree / "DEBIAN/postinst").chmod(0o755)
        file = place / f"{name}_{version}_all.deb"
        subprocess.run(["dpkg-deb", "--build", str(tree), str(file)], check=True)
        shutil.rmtree(tree)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        size = file.stat().st_size
        index += f"{control}Filename: ./{file.name}\nSize: {size}\nSHA256: {digest}\n\n"
    (place / "Packages").write_text(index)
    return place


class AptRoot(Machine):
    """A root of this machine's apt and dpkg; nothing outside of it is changed."""

    def run(self, argv: list[str], stdin: str = "", timeout_s: int = 600) -> str:
        dpkg = [f"--root={self.root}", "--force-script-chrootless"]
        apt = [f"Dir={self.root}", f"Dir::State::status={self.root}/var/lib/dpkg/status"]
        apt += ["APT::Sandbox::User=root", *(f"Dpkg::Options::={each}" for each in dpkg)]
        apt += ["Dir::Bin::dpkg=/usr/bin/dpkg", "Dir::Bin::Methods=/usr/lib/apt/methods"]
        options = [word for each in apt for word in ("-o", each)]
        more = {
            "apt-get": options,
            "apt-cache": options,
            "dpkg": dpkg,
            "dpkg-query": [f"--root={self.root}"],
        }
        words = [word for each in argv for word in (each, *more.get(each, []))]
        return super().run(words, stdin, timeout_s)


@pytest.fixture
def node(repository: Path, tmp_path: Path) -> AptRoot:
    made = AptRoot(str(tmp_path))
    made.write("/var/lib/dpkg/status", "")
    made.write("/etc/apt/sources.list", f"deb [trusted=yes] copy:{repository} ./\n")
    for each in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "etc/apt/x"):
        (tmp_path / each).mkdir(parents=True)
    for each in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log/apt", "etc/apt/apt.conf.d"):
        (tmp_path / each).mkdir(parents=True)
    made.run(["apt-get", "-q", "update"])
    return made


def install(node: AptRoot, name: str, version: str = "3.1.0", *, burns: bool = False) -> Apt:
    manager = Apt(node)
    manager.burns = burns
    exchange(node, manager, [], [Offer(name, version, "made")])
    return manager


def test_firmware_is_not_burned_by_what_comes_along(node: AptRoot):
    assert {*install(node, "doca-ofed").installed()} == {"doca-ofed", "mft"}
    assert not node.exists("/burned")


def test_package_that_needs_the_burning_one_is_refused(node: AptRoot):
    with pytest.raises(Refused, match=r"burns firmware on .*doca-roce.*Write ofed_firmware: upd"):
        install(node, "doca-roce")
    assert Apt(node).installed() == {}


@pytest.mark.parametrize("name", ["doca-ofed", "doca-roce"])
def test_firmware_is_burned_where_the_site_wants_it(node: AptRoot, name: str):
    assert "mlnx-fw-updater" in install(node, name, burns=True).installed()
    assert node.exists("/burned")


def test_burning_package_that_is_there_stays_as_it_is(node: AptRoot):
    install(node, "mlnx-fw-updater", "24.10", burns=True)
    node.remove("/burned")
    assert install(node, "doca-roce").installed()["mlnx-fw-updater"].version == "24.10"
    with pytest.raises(Refused, match="burns firmware"):
        install(node, "doca-all")
    assert not node.exists("/burned")


def test_installation_that_was_cut_is_finished_without_burning(node: AptRoot, repository: Path):
    unpacked = ["dpkg", "--unpack", f"{repository}/mlnx-fw-updater_25.10_all.deb"]
    node.run(unpacked)
    node.run(["dpkg", "--unpack", f"{repository}/mft_4.30_all.deb"])
    manager = Apt(node)
    manager.repair(["mft", "mlnx-fw-updater"], ["mlnx-fw-updater"], tolerate=False)
    assert {name: each.whole for name, each in manager.installed().items()} == {"mft": True}
    node.run(unpacked)
    node.run(["dpkg", "--force-depends", "-i", f"{repository}/doca-roce_3.1.0_all.deb"])
    with pytest.raises(Refused, match="what is installed depends on it"):
        manager.repair(["mlnx-fw-updater"], ["mlnx-fw-updater"], tolerate=False)
    assert not node.exists("/burned")
