"""The command line of the virtual machine of one node."""

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
    factory: Path | None = None  # the script of the first boot, if the lab has a shape
    numa: int | None = None  # the NUMA node of all rails; None to spread them
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
            *self._rails(),
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

    def _rails(self) -> Iterator[str]:
        nics = [(rail, mac) for rail in self.node.rails for mac in rail.macs]
        for number, (rail, mac) in enumerate(nics):
            numa = rail.number * NUMA_NODES // len(self.node.rails)
            yield from self._nic(number, rail.number, mac, numa if self.numa is None else self.numa)

    def _nic(self, number: int, rail: int, mac: str, numa: int) -> Iterator[str]:
        # A host bridge of its own for each NIC: the only way to a PCI device with a NUMA node.
        bridge = (
            f"pxb-pcie,bus=pcie.0,id=bridge{number},bus_nr={FIRST_BUS + BUS_STEP * number},"
            f"numa_node={numa},addr={FIRST_BRIDGE_SLOT + number:#x}"
        )
        port = (
            f"pcie-root-port,bus=bridge{number},id=port{number},slot={number + 1},"
            f"chassis={number + 1}"
        )
        netdev = (
            f"dgram,id=nic{number},local.type=unix,local.path={self.directory}/nic{number}.sock,"
            f"remote.type=unix,remote.path={self.switch}/rail{rail}"
        )
        # With event_idx, one missed notification under emulation leaves the rail silent for good:
        # it was seen with frames queued in the guest that QEMU never fetched. Without it, the next
        # frame notifies again.
        nic = (
            f"virtio-net-pci,bus=port{number},netdev=nic{number},mac={mac},event_idx=off,"
            f"speed={RAIL_SPEED_MBPS},duplex=full,romfile="
        )
        yield from ("-device", bridge, "-device", port, "-netdev", netdev, "-device", nic)

    def _firmware(self) -> Iterator[str]:
        rails = " ".join("+".join(rail.macs) for rail in self.node.rails)
        yield from ("-fw_cfg", f"name={FIRMWARE}/hostname,string={self.node.name}")
        yield from ("-fw_cfg", f"name={FIRMWARE}/rails,string={rails}")
        yield from (
            "-fw_cfg",
            f"name={FIRMWARE}/authorized_keys,file={_value(self.authorized_keys)}",
        )
        if self.factory is not None:
            yield from ("-fw_cfg", f"name={FIRMWARE}/factory,file={_value(self.factory)}")
        yield from ("-fw_cfg", f"name={FIRMWARE}/host_key,file={_value(self.host_key)}")


def _value(path: Path) -> str:
    """Return a path as QEMU's options want it: a comma would end the value."""
    return str(path).replace(",", ",,")
