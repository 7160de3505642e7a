"""Whether the host owns a BlueField's ports, or its Arm processors do (DPU mode).

QoS that the host sets is undefined then: NVIDIA BlueField BSP documentation, "QoS Configuration".
The modes are in "Modes of Operation": in NIC mode the offload engine is DISABLED(1).
"""

from collections.abc import Mapping

from rdmaprov.facts import firmware
from rdmaprov.facts.devices import NET, Devices
from rdmaprov.facts.errors import CouldNotTell
from rdmaprov.facts.firmware import FirmwareSetting
from rdmaprov.facts.host import Host

_NVIDIA = "0x15b3"
# Linux drivers/net/ethernet/mellanox/mlx5/core/main.c, mlx5_core_pci_table.
_BLUEFIELDS = frozenset({"0xa2d2", "0xa2d6", "0xa2dc", "0xa2df"})
_MODEL, _ENGINE = "INTERNAL_CPU_MODEL", "INTERNAL_CPU_OFFLOAD_ENGINE"
_SEPARATED_HOST, _DISABLED = "0", "1"


def require_host_owns(host: Host, here: Devices, netdev: str) -> None:
    """Require that QoS read on the host is the port's.

    Raises:
        CouldNotTell: a BlueField is in DPU mode, or does not say in which.
    """
    base = f"{NET}/{netdev}/device"
    if here.files.value(f"{base}/vendor") != _NVIDIA:
        return
    if here.files.value(f"{base}/device") not in _BLUEFIELDS:
        return
    address = here.pci_of(f"{NET}/{netdev}")[-1]
    read = firmware.command(address)
    owns = host_owns(firmware.read(host, address, (_MODEL, _ENGINE)))
    if owns is None:
        raise CouldNotTell(f"{netdev}: the BlueField does not show whether it is in DPU mode", read)
    if not owns:
        raise CouldNotTell(
            f"{netdev}: the BlueField is in DPU mode: its Arm processors own the port's QoS", read
        )


def host_owns(settings: Mapping[str, FirmwareSetting]) -> bool | None:
    """Return whether the host owns the ports by its settings; None if they do not tell."""
    engine, model = (
        settings[name].current[-2:-1] if name in settings else "" for name in (_ENGINE, _MODEL)
    )
    if engine == _DISABLED or model == _SEPARATED_HOST:
        return True
    return False if (engine, model) == ("0", "1") else None
