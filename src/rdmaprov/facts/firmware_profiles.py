"""Firmware settings that go together, by the name of their profile.

The roles have the same in plugins/module_utils/nic_firmware.py, with the source of each.
"""

from collections.abc import Iterable

_PORT = ("LLDP_NB_DCBX", "LLDP_NB_RX_MODE", "LLDP_NB_TX_MODE")
_PORTS = ("P1", "P2")

# Columns of _PORT: DCBX false, LLDP OFF; DCBX true, LLDP ALL.
_OFF, _ALL = (0, 0, 0), (1, 2, 2)


def _lldp(values: tuple[int, ...]) -> dict[str, int]:
    return {
        f"{name}_{port}": value
        for port in _PORTS
        for name, value in zip(_PORT, values, strict=True)
    }


PROFILES: dict[str, dict[str, int]] = {
    "roce": {f"ROCE_CC_PRIO_MASK_{port}": 255 for port in _PORTS},
    "gpudirect": {"ATS_ENABLED": 0},
    "no-vfs": {"SRIOV_EN": 0, "NUM_OF_VFS": 0},
    "host-dcbx": _lldp(_OFF),
    "firmware-dcbx": _lldp(_ALL),
    "weka": {"ADVANCED_PCI_SETTINGS": 1, "PCI_WR_ORDERING": 1},
}


def settings(profiles: Iterable[str]) -> dict[str, int]:
    """Return the settings of profiles; a later profile wins."""
    return {name: value for each in profiles for name, value in PROFILES[each].items()}
