"""Which packages belong to which flavour of the RDMA drivers. Runs on the node."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..packages import Package

# Both the vendor and distributions have these; the version tells whose they are.
_SHARED = re.compile(
    r"rdma-core(-devel)?|lib(ibverbs|rdmacm|ibumad|ibmad|ibnetdisc|opensm|osm\w+|mlx[45])[\w.-]*"
    r"|(ibverbs|rdmacm|libibverbs|librdmacm)-(utils|providers)|infiniband-diags|perftest|opensm"
    r"|ibacm|srptools|srp_daemon|iwpmd|python3-pyverbs|ucx|libucx\w*|mstflint|mlnx-tools"
)
# Such as 2410mlnx54-1.2410114, 24.10.OFED.24.10.1.1.4.1-1 and 24.10.0-0.65.g9093bae.2410114.
_VENDOR_VERSION = re.compile(r"mlnx|OFED|\.2\d{6}(?!\d)")
# Only the vendor has these.
_DOCA = re.compile(r"(lib)?doca-[\w.-]+|(lib)?flexio[\w.-]*|dpa-[\w.-]+|dpaeumgmt[\w.-]*")
_MLNX_META = re.compile(
    r"mlnx-ofed-(all|basic|guest|hpc|hypervisor|kernel-only|vma|dpdk|bluefield)"
    r"[\w-]*|mlnx-en[\w-]*"
)
_VENDOR = re.compile(
    r"mlnx-(ofed|ofa)[\w.-]*|ofed-(scripts|docs)|mlnx-(nvme|nfsrdma|fw-updater)[\w-]*|mft|mft-\w+"
    r"|kernel-mft[\w-]*|kmod-(mlnx|kernel-mft|knem|iser|isert|srp|xpmem|fwctl)[\w-]*"
    r"|(iser|isert|srp|fwctl|knem|xpmem)(-dkms)?|mlnx-iproute2|mlnx-ethtool|dpcp|hcoll|sharp"
)
_KERNEL = re.compile(
    r"linux-(image|headers|modules|modules-extra)-[\w.+-]+|linux-(generic|amd64|arm64|nvidia)[\w.-]*"
    r"|kernel|kernel-(core|devel|headers|modules)[\w-]*"
)
_GPU = re.compile(
    r"(lib)?nvidia-[\w.-]+|cuda-drivers[\w-]*|kmod-nvidia[\w.-]*|xserver-xorg-video-nvidia[\w-]*"
)


def is_vendors(package: Package) -> bool:
    """Return whether a package came from DOCA or MLNX_OFED."""
    return is_shared_from_vendor(package) or is_vendors_only(package)


def is_vendors_only(package: Package) -> bool:
    """Return whether a package came from the vendor, and no distribution has it."""
    name = package.name
    if _SHARED.fullmatch(name):
        return False
    return any(each.fullmatch(name) for each in (_DOCA, _MLNX_META, _VENDOR))


def is_shared_from_vendor(package: Package) -> bool:
    """Return whether a package that distributions have too is the vendor's."""
    return bool(_SHARED.fullmatch(package.name) and _VENDOR_VERSION.search(package.version))


def is_rdma(name: str) -> bool:
    """Return whether a package is of RDMA, whoever made it."""
    return is_vendors_only(Package(name, "")) or bool(_SHARED.fullmatch(name))


def flavours(installed: Mapping[str, Package]) -> set[str]:
    """Return the vendor's flavours that are on the node, by their own packages.

    Drivers of which nobody says the flavour are called "unknown".
    """
    found = set()
    if any(_DOCA.fullmatch(name) for name in installed):
        found.add("doca")
    if any(_MLNX_META.fullmatch(name) for name in installed):
        found.add("mlnx_ofed")
    if not found and any(is_vendors_only(package) for package in installed.values()):
        found.add("unknown")
    return found


def to_hold(installed: Mapping[str, Package]) -> list[str]:
    """Return the packages that only work together: drivers, kernel, GPU driver."""
    return sorted(
        name
        for name, package in installed.items()
        if is_vendors(package) or _KERNEL.fullmatch(name) or _GPU.fullmatch(name)
    )
