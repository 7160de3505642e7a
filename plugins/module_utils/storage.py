"""What a node's storage depends on: servers, and RDMA devices that the kernel uses.

Runs on the node. Sources: Linux fs/ceph/super.c (ceph_show_options), drivers/nvme/host/fabrics.c
(nvmf_get_address), drivers/scsi/scsi_transport_iscsi.c; ports: the manuals of BeeGFS, IBM Storage
Scale and WEKA.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator

from .machine import CommandFailed, Machine

# By type, the TCP ports of servers that a mount does not name.
_PORTS = {
    "beegfs": (8003, 8005, 8008),
    "gpfs": (1191,),
    "wekafs": (*range(14000, 14101), *range(14200, 14401)),
}
_FILESYSTEMS = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "ceph",
    "lustre",
    "glusterfs",
    "fuse.glusterfs",
    *_PORTS,
)
_NVME = "/sys/class/nvme"
_ISCSI = "/sys/class/iscsi_connection"
_HOST = re.compile(r"\[([0-9a-fA-F:.]+)\](?::\d+)?|([^:\s\[\]]+)(?::\d+)?")


def servers(machine: Machine) -> list[tuple[str, str]]:
    """Return the address of each server that storage in use is on, and what is on it."""
    found = [*_mounts(machine), *_nvme(machine), *_iscsi(machine)]
    return [(address, what) for name, what in found for address in _addresses(machine, name)]


def rdma_users(machine: Machine) -> list[tuple[str, str]]:
    """Return the network device of each RDMA port over which the kernel has a connection.

    Such as NVMe-oF, NFS, Lustre or BeeGFS over RDMA; beside it, what uses it.
    """
    if not machine.names("/sys/class/infiniband") or not machine.has("rdma"):
        return []
    found = []
    for each in json.loads(machine.run(["rdma", "-j", "resource", "show", "qp"]) or "[]"):
        user = str(each.get("comm", "")).strip("[]")
        is_kernels = "pid" not in each and user not in ("", "ib_ipoib")
        if is_kernels and (each.get("type"), each.get("state")) == ("RC", "RTS"):
            port = f"/sys/class/infiniband/{each['ifname']}"
            what = f"the kernel's {user} over RDMA"
            found += [(netdev, what) for netdev in machine.names(port + "/device/net")]
    return sorted(set(found))


def over_rdma(machine: Machine) -> list[str]:
    """Return the storage in use that says itself that it is over RDMA, without any program."""
    found = []
    for source, directory, kind, options in _in_use(machine):
        is_rdma = {"proto": "rdma"}.items() <= options.items() or "rdma" in options
        if is_rdma or (kind == "lustre" and "@o2ib" in source):
            found.append(f"the {kind} on {directory} over RDMA")
    return found + [
        f"the NVMe-oF controller {name} over RDMA"
        for name in machine.names(_NVME)
        if machine.value(f"{_NVME}/{name}/transport") == "rdma"
    ]


def _in_use(machine: Machine) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield each mount of storage elsewhere: source, directory, type, options."""
    for line in (machine.read("/proc/mounts") or "").splitlines():
        words = line.split()
        if len(words) < 4 or words[2] not in _FILESYSTEMS:
            continue
        source, directory, kind = words[:3]
        yield source, directory, kind, dict(o.partition("=")[::2] for o in words[3].split(","))


def _mounts(machine: Machine) -> Iterator[tuple[str, str]]:
    for source, directory, kind, options in _in_use(machine):
        what = f"the filesystem on {directory}"
        names = _names(kind, source, options)
        if kind in _PORTS:
            names += _peers(machine, _PORTS[kind])
        for name in names:
            yield name, what


def _names(kind: str, source: str, options: dict[str, str]) -> list[str]:
    """Return the servers that a mount names."""
    if "addr" in options:
        return [options["addr"]]
    if kind == "ceph":  # USER@FSID.NAME=/ with mon_addr, or before Linux 5.17 MON,MON:/
        monitors = options.get("mon_addr", "").replace("/", ",") or source.partition(":/")[0]
        return [_host(each) for each in monitors.split(",") if "=" not in each]
    if kind == "lustre":  # NID,NID:NID:/FS; a NID is ADDRESS@NETWORK
        return re.findall(r"([^,:@/]+)@", source)
    if kind == "wekafs":
        return [_host(each) for each in source.partition("/")[0].split(",")]
    if kind in _PORTS:
        return []
    return [_host(source.rpartition(":")[0])]


def _host(text: str) -> str:
    """Return a host without its port."""
    found = _HOST.fullmatch(text)
    return (found[1] or found[2]) if found else ""


def _peers(machine: Machine, ports: tuple[int, ...]) -> list[str]:
    """Return the addresses to which the node has TCP connections on one of these ports."""
    found = []
    for line in machine.run(["ss", "-Htn", "state", "established"]).splitlines():
        host, _, port = (line.split() or [""])[-1].rpartition(":")
        if port.isdigit() and int(port) in ports:
            found.append(host.strip("[]").replace("::ffff:", ""))
    return sorted(set(found))


def _nvme(machine: Machine) -> Iterator[tuple[str, str]]:
    for name in machine.names(_NVME):
        address = machine.value(f"{_NVME}/{name}/address") or ""
        found = re.search(r"(?:^|,)traddr=([^,\s]+)", address)
        if found and machine.value(f"{_NVME}/{name}/transport") in ("rdma", "tcp"):
            yield found[1], f"the NVMe-oF controller {name}"


def _iscsi(machine: Machine) -> Iterator[tuple[str, str]]:
    for name in machine.names(_ISCSI):
        address = machine.value(f"{_ISCSI}/{name}/persistent_address")
        if address:
            yield address, f"the iSCSI {name}"


def _addresses(machine: Machine, name: str) -> list[str]:
    """Return the addresses of a server; none for a name that the node does not resolve."""
    try:
        return [str(ipaddress.ip_address(name))]
    except ValueError:
        pass
    if not name or not machine.has("getent"):
        return []
    try:
        text = machine.run(["getent", "ahosts", name])
    except CommandFailed:
        return []
    return sorted({line.split()[0] for line in text.splitlines() if line.strip()})
