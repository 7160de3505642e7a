"""The command line of the virtual machine of one node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rdmaprov.lab.accel import Accel
from rdmaprov.lab.model import LabNode
from rdmaprov.lab.ssh import ADDRESS

NUMA_NODES = 2
DISK = "disk.qcow2"  # in the node's directory
RAIL_SPEED_MBPS = 10_000  # what ethtool reports; the slowest rate a fabric has
FIRMWARE = "opt/org.rdmaprov"  # fw_cfg directory that the guest's identity unit reads
MANAGEMENT_SLOT = 2  # 10-management.network in the image names it
FIRST_BRIDGE_SLOT = 16
FIRST_BUS = 32
BUS_STEP = 16


@dataclass(frozen=True)
class Machine:
    """The virtual machine of one node.

    It runs in the lab's directory, as the switch does: a socket's name must mean the same to
    both, and relative names always fit into the 107 bytes that a socket's name may have.
    """

    node: LabNode
    directory: Path  # of the node
    accel: Accel
    memory_mib: int
    torch_disk: Path
    authorized_keys: Path
    host_key: Path
    switch: Path
    saved_state: str | None = None  # start from it, paused, instead of booting

    def argv(self) -> list[str]:
        """Return the command line."""
        return [
            "qemu-system-x86_64",
            *("-name", self.node.name, "-machine", "q35"),
            *self.accel.arguments,
            *("-nodefaults", "-no-user-config", "-display", "none"),
            *self._memory(),
            *self._management(),  # before what QEMU finds a slot for by itself
            *self._disks(),
            *(word for rail in self.node.rails for word in self._rail(rail.number, rail.mac)),
            *self._firmware(),
            *("-chardev", f"file,id=console,path={self.directory}/console.log,append=on"),
            *("-serial", "chardev:console"),
            *("-chardev", f"socket,id=agent,path={self.directory}/agent.sock,server=on,wait=off"),
            *("-device", "virtio-serial-pci,bus=pcie.0"),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
            *("-device", "virtio-rng-pci,bus=pcie.0"),
            *("-qmp", f"unix:{self.directory}/qmp.sock,server=on,wait=off"),
            *(("-S", "-loadvm", self.saved_state) if self.saved_state else ()),
        ]

    def _memory(self) -> Iterator[str]:
        # Emulated kernels die now and then when they patch their own code with two processors
        # running ("Oops: int3"), so there the second NUMA node is memory and rails alone.
        cpus = NUMA_NODES if self.accel is Accel.KVM else 1
        yield from ("-m", str(self.memory_mib), "-smp", f"{cpus},sockets={cpus}")
        for numa in range(NUMA_NODES):
            size = self.memory_mib // NUMA_NODES
            cpu = f",cpus={numa}" if numa < cpus else ""
            yield from ("-object", f"memory-backend-ram,id=memory{numa},size={size}M")
            yield from ("-numa", f"node,nodeid={numa}{cpu},memdev=memory{numa}")

    def _disks(self) -> Iterator[str]:
        # cache=unsafe: a lab that loses its host's power is built anew.
        for name, path, more in (
            ("root", self.directory / DISK, ",format=qcow2"),
            ("torch", self.torch_disk, ",format=raw,readonly=on"),
        ):
            yield from ("-drive", f"if=none,id={name},file={_value(path)},cache=unsafe{more}")
            yield from ("-device", f"virtio-blk-pci,bus=pcie.0,drive={name}")

    def _management(self) -> Iterator[str]:
        yield from ("-netdev", f"user,id=mgmt,hostfwd=tcp:{ADDRESS}:{self.node.port}-:22")
        yield "-device"
        yield (
            f"virtio-net-pci,bus=pcie.0,addr={MANAGEMENT_SLOT:#x},netdev=mgmt,"
            f"mac={self.node.management_mac},romfile="
        )

    def _rail(self, number: int, mac: str) -> Iterator[str]:
        # A host bridge of its own for each rail: the only way to a PCI device with a NUMA node.
        numa = number * NUMA_NODES // len(self.node.rails)
        bridge = (
            f"pxb-pcie,bus=pcie.0,id=bridge{number},bus_nr={FIRST_BUS + BUS_STEP * number},"
            f"numa_node={numa},addr={FIRST_BRIDGE_SLOT + number:#x}"
        )
        port = (
            f"pcie-root-port,bus=bridge{number},id=port{number},slot={number + 1},"
            f"chassis={number + 1}"
        )
        netdev = (
            f"dgram,id=rail{number},local.type=unix,local.path={self.directory}/rail{number}.sock,"
            f"remote.type=unix,remote.path={self.switch}/rail{number}"
        )
        nic = (
            f"virtio-net-pci,bus=port{number},netdev=rail{number},mac={mac},"
            f"speed={RAIL_SPEED_MBPS},duplex=full,romfile="
        )
        yield from ("-device", bridge, "-device", port, "-netdev", netdev, "-device", nic)

    def _firmware(self) -> Iterator[str]:
        rails = " ".join(rail.mac for rail in self.node.rails)
        yield from ("-fw_cfg", f"name={FIRMWARE}/hostname,string={self.node.name}")
        yield from ("-fw_cfg", f"name={FIRMWARE}/rails,string={rails}")
        yield from (
            "-fw_cfg",
            f"name={FIRMWARE}/authorized_keys,file={_value(self.authorized_keys)}",
        )
        yield from ("-fw_cfg", f"name={FIRMWARE}/host_key,file={_value(self.host_key)}")


def _value(path: Path) -> str:
    """Return a path as QEMU's options want it: a comma would end the value."""
    return str(path).replace(",", ",,")
