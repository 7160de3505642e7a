"""Which hardware and software a node is, from files that are read in milliseconds. Python 3.6.

ROOT is where /sys, /proc and /etc are; it is `/` except in tests. What a vendor left in a serial
number may be any bytes, so each text is printable ASCII of at most MOST characters here.
"""

import os

from rdmaprov.node.devices import INFINIBAND, NET, PCI, names, pci_path, rail_devices, rdma_at
from rdmaprov.node.gpus import read_uuids

MOST = 128
DMI = "sys/class/dmi/id"
# What each is called in the certificate, and the kernel's name (drivers/firmware/dmi-id.c). Root
# alone may read serial numbers.
MACHINE = {
    "vendor": "sys_vendor",
    "product": "product_name",
    "serial": "product_serial",
    "uuid": "product_uuid",
    "board_serial": "board_serial",
    "bios": "bios_version",
}
# The driver's own files (NVIDIA Linux driver README, "Using the /proc File System Interface"):
# nvidia-smi would take a second, and a prolog has none.
NVIDIA = "proc/driver/nvidia/gpus"
AMDGPU = "sys/bus/pci/drivers/amdgpu"
GPU_FIELDS = {
    "Model": "model",
    "GPU UUID": "uuid",
    "Video BIOS": "vbios",
    "GPU Firmware": "firmware",
}
GPU_KEYS = ("pci", "model", "uuid", "vbios", "firmware")


def clean(text):
    """Return a text as printable ASCII, shortened."""
    plain = text.strip()[:MOST]
    return "".join(each if " " <= each <= "~" else "?" for each in plain)


def read_text(*parts):
    """Return a file's text, cleaned; empty if it cannot be read."""
    try:
        with open(os.path.join(*parts), "rb") as file:
            return clean(file.read(4096).decode("utf-8", "replace"))
    except (OSError, ValueError):
        return ""


def read_identity(rails, root="/", uuids=None):
    """Return the machine, its NICs, its GPUs, and the versions of what drives them.

    `uuids` has those of GPUs by PCI address; None: nvidia-smi is asked where the kernel has none.
    """
    return {
        "machine": {key: read_text(root, DMI, name) for key, name in MACHINE.items()},
        "rails": [read_nic(each, root) for each in rails],
        "gpus": read_nvidia(root, uuids) + read_amd(root),
        "versions": read_versions(root),
    }


def read_nic(described, root):
    """Return the NIC of a rail as the site describes it: `netdev`, `pci` or `rdma`."""
    netdev, rdma = rail_devices(root, described)
    if not os.path.isdir(os.path.join(root, NET, netdev)):
        netdev, rdma = "", rdma_at(root, described["pci"].lower())
    way = pci_path(root, NET, netdev, "device") if netdev else []
    way = way or (pci_path(root, INFINIBAND, rdma, "device") if rdma else [])
    own = (root, INFINIBAND, rdma)
    return {
        "netdev": clean(netdev),
        "rdma": clean(rdma),
        "pci": way[-1] if way else "",
        "guid": read_text(*own, "node_guid") if rdma else "",
        "board": read_text(*own, "board_id") if rdma else "",
        "firmware": read_text(*own, "fw_ver") if rdma else "",
    }


def read_nvidia(root, uuids=None):
    """Return the GPUs that NVIDIA's driver has, by PCI address."""
    found = []
    for address in names(root, NVIDIA):
        each = dict.fromkeys(GPU_KEYS, "")
        each["pci"] = clean(address).lower()
        for line in read_lines(root, NVIDIA, address, "information"):
            name, _, value = line.partition(":")
            if name.strip() in GPU_FIELDS:
                each[GPU_FIELDS[name.strip()]] = clean(value)
        found.append(each)
    # Until someone opens a GPU, the driver has question marks in place of its UUID.
    if any("?" in each["uuid"] for each in found):
        if uuids is None:  # this opens them, and takes a second, or many
            uuids = read_uuids() if root == "/" else {}
        for each in found:
            each["uuid"] = clean(uuids.get(each["pci"], each["uuid"]))
    return found


def read_lines(*parts):
    """Return the lines of a file, none if it cannot be read."""
    try:
        with open(os.path.join(*parts), "rb") as file:
            return file.read(65536).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return []


def read_amd(root):
    """Return the GPUs that amdgpu has: `unique_id` is the serial number of the die."""
    found = []
    for address in names(root, AMDGPU):
        uuid = read_text(root, PCI, address, "unique_id")
        if uuid:
            each = dict.fromkeys(GPU_KEYS, "")
            vbios = read_text(root, PCI, address, "vbios_version")
            each.update(pci=clean(address).lower(), uuid=uuid, vbios=vbios)
            found.append(each)
    return found


def read_versions(root):
    """Return the versions of the kernel and of what drives NICs and GPUs; empty where none is."""
    pretty = [
        line.partition("=")[2].strip().strip('"')
        for line in read_lines(root, "etc/os-release")
        if line.startswith("PRETTY_NAME=")
    ]
    return {
        "kernel": read_text(root, "proc/sys/kernel/osrelease"),
        "system": clean(pretty[0]) if pretty else "",
        "nvidia": read_text(root, "sys/module/nvidia/version"),
        "amdgpu": read_text(root, "sys/module/amdgpu/version"),
        "mlx5": read_text(root, "sys/module/mlx5_core/version"),
    }
