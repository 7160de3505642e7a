"""The RDMA drivers: source, version, kernels, hold; and whether packages can be installed."""

import re

import pytest
from testinfra.host import Host

from rdmaprov.facts import disk, software
from rdmaprov.facts.text import read_files
from rdmaprov.inventory import Node
from rdmaprov.validate.verdict import AFTER_REBOOT, CONFIGURED, Setting, not_applicable

pytestmark = pytest.mark.state

_RELEASE = "/proc/sys/kernel/osrelease"
# Debian's names, then the Red Hat family's.
_TOOLS = (
    ("rdma-core",),
    ("ibverbs-utils", "libibverbs-utils"),
    ("rdmacm-utils", "librdmacm-utils"),
    ("perftest",),
)
# DOCA's OFED has mlnx-ofed-kernel-dkms and -utils too: only these packages are MLNX_OFED's alone.
_META = {
    "doca": r"doca-(ofed|networking|roce|all)",
    "mlnx_ofed": r"mlnx-ofed-(all|basic|guest|hpc|hypervisor|kernel-only|vma|dpdk|bluefield)[\w-]*"
    r"|mlnx-en[\w-]*",
}
_VENDORS_VERSION = re.compile(r"mlnx|OFED|\.2\d{6}(?!\d)")
# A log file's last megabytes, the initramfs that dracut or update-initramfs writes beside the old.
_LEAST_FREE_BYTES = 256 << 20


def test_tools_are_installed(host: Host, node: Node) -> None:
    """The RDMA diagnostic tools are installed."""
    seen = software.packages(host)
    for names in _TOOLS:
        if not set(names) & set(seen):
            where = f"dpkg -l {names[0]} (rpm -q {names[-1]})"
            setting = Setting(node, "packages", names[0], "ofed_source", where, CONFIGURED)
            setting.reject(None, "installed")


def test_packages_are_whole(host: Host, node: Node) -> None:
    """No package of the RDMA stack, the kernel or the GPU driver is half installed."""
    halfway = sorted(name for name, each in software.packages(host).items() if not each.whole)
    fix = "dpkg --configure -a"
    setting = Setting(
        node, "packages", "installed halfway", "ofed_source", "dpkg -l", CONFIGURED, fix=fix
    )
    setting.require(halfway, [])


def test_drivers_are_of_the_sites_source(host: Host, node: Node) -> None:
    """The node has the drivers of one source, the site's."""
    source = node.get("ofed_source")
    found = _flavours(host)
    if source == "keep" and len(found) == 1:
        not_applicable(f"ofed_source: keep; the node has {found[0]}")
    Setting(
        node, "drivers", "flavour", "ofed_source", where="dpkg -l, ofed_info -s", truth=CONFIGURED
    ).require(found, [source])


def test_version_is_the_sites(host: Host, node: Node) -> None:
    """The packages have the site's version."""
    source, wanted = node.get("ofed_source"), node.get("ofed_version")
    if source in ("keep", "inbox") or wanted in ("", "latest"):
        not_applicable(f"ofed_source: {source}, ofed_version: {wanted or 'empty'}")
    packages = software.packages(host)
    for name, each in packages.items():
        if re.fullmatch(_META[source], name) and not _is_build(each.version, wanted):
            Setting(
                node, name, "version", "ofed_version", where=f"dpkg -l {name}", truth=CONFIGURED
            ).reject(each.version, wanted)
    if not any(re.fullmatch(_META[source], name) for name in packages):
        Setting(node, "packages", source, "ofed_version", where="dpkg -l", truth=CONFIGURED).reject(
            None, wanted
        )


def test_driver_running(host: Host, node: Node) -> None:
    """The loaded mlx5_core is the site's: the vendor's has a version, the inbox one has none."""
    module = software.modules(host).get("mlx5_core")
    if module is None:
        not_applicable("mlx5_core is not loaded: the node has no NVIDIA NIC")
    vendors = _is_vendors(host, node)
    Setting(
        node, "mlx5_core", "version", "ofed_source", where="/sys/module/mlx5_core/version"
    ).require(
        module.version or "the kernel's own",
        module.version or "a vendor's" if vendors else "the kernel's own",
    )


def test_driver_after_reboot(host: Host, node: Node) -> None:
    """Each kernel that may boot next has the site's mlx5_core."""
    vendors = _is_vendors(host, node)
    for kernel, path in software.drivers_on_disk(host).items():
        seen = "a vendor's" if re.search(r"/(updates|extra|weak-updates)/", path) else "its own"
        where = f"modinfo -k {kernel} mlx5_core"
        setting = Setting(node, f"kernel {kernel}", "mlx5_core", "ofed_source", where, AFTER_REBOOT)
        setting.require(seen if path else None, "a vendor's" if vendors else "its own")


def test_packages_are_held_together(host: Host, node: Node) -> None:
    """The vendor's drivers and their kernel are on hold."""
    if node.get("ofed_source") in ("keep", "inbox") or not node.get("ofed_hold"):
        not_applicable(f"ofed_source: {node.get('ofed_source')}: the site holds no package")
    release = read_files(host, _RELEASE).must(_RELEASE)
    if any(name == "kernel-core" for name in software.packages(host)):
        not_applicable("dnf keeps versionlocks outside the package database")
    for name, each in software.packages(host).items():
        ours = name == f"linux-image-{release}" or _VENDORS_VERSION.search(each.version)
        if ours and not each.held:
            Setting(
                node, name, "hold", "ofed_hold", where="apt-mark showhold", truth=CONFIGURED
            ).reject("none", "held")


def test_no_installation_is_under_way(host: Host, node: Node) -> None:
    """No process holds dpkg's lock: a running installation changes what is checked."""
    holder = disk.dpkg_lock_holder(host)
    if holder:
        where, look = "/var/lib/dpkg/lock-frontend, /proc/locks", f"ps -fp {holder.split()[0]}"
        setting = Setting(node, "dpkg", "lock", "ofed_source", where, look=look)
        setting.reject(f"held by process {holder}", "free")


def test_disk_has_room(host: Host, node: Node) -> None:
    """The root file system has free space."""
    free = disk.free_bytes(host, "/")
    if free < _LEAST_FREE_BYTES:
        look = "du -xh --max-depth=2 / | sort -h | tail"
        setting = Setting(node, "/", "free space", "ofed_source", "df /", look=look)
        setting.reject(f"{free >> 20} MiB", f"at least {_LEAST_FREE_BYTES >> 20} MiB")


def _flavours(host: Host) -> list[str]:
    """Return what the node's packages and ofed_info call its drivers; inbox if nothing does."""
    seen = software.packages(host)
    found = {name for name, form in _META.items() if any(re.fullmatch(form, each) for each in seen)}
    vendors = [name for name, each in seen.items() if _VENDORS_VERSION.search(each.version)]
    says = software.ofed(host)
    found |= {says.flavour} if says else set()
    if not found and vendors:
        found = {f"a vendor's {vendors[0]}"}
    return sorted(found or {"inbox"})


def _is_vendors(host: Host, node: Node) -> bool:
    """Return whether the drivers must be a vendor's; for keep, those of the node's packages."""
    source = node.get("ofed_source")
    return _flavours(host) != ["inbox"] if source == "keep" else source != "inbox"


def _is_build(version: str, wanted: str) -> bool:
    """Return whether a package's version is a build of the wanted one, such as 3.1.0-091000."""
    return bool(re.match(re.escape(wanted) + r"(?![\d.])", version.partition(":")[2] or version))
