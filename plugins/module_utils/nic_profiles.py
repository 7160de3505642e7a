"""Firmware settings that go together, by the name of their profile. Runs on the node.

Values are those of the document that each profile names. The suite has the same in
rdmaprov.facts.firmware_profiles; tests/unit/facts/test_tunables.py holds both together.
"""

from __future__ import annotations

PROFILES: dict[str, dict[str, int]] = {
    # NVIDIA Network Operator 26.7, "Configuration Details", roceOptimized.
    "roce": {"ROCE_CC_PRIO_MASK_P1": 255, "ROCE_CC_PRIO_MASK_P2": 255},
    # The same page, gpuDirectOptimized: bare metal alone.
    "gpudirect": {"ATS_ENABLED": 0},
    # The same page, numVfs.
    "no-vfs": {"SRIOV_EN": 0, "NUM_OF_VFS": 0},
    # Microsoft, Azure/AzureLocal-Supportability, Troubleshoot-TOR-LLDP-DCBX-PFC-RoCEv2.md, step 3:
    # one LLDP agent on a port, and not the firmware's.
    "host-dcbx": {
        "LLDP_NB_DCBX_P1": 0,
        "LLDP_NB_RX_MODE_P1": 0,
        "LLDP_NB_TX_MODE_P1": 0,
        "LLDP_NB_DCBX_P2": 0,
        "LLDP_NB_RX_MODE_P2": 0,
        "LLDP_NB_TX_MODE_P2": 0,
    },
    # OpenStack, os-net-config/os-net-config, os_net_config/dcb_config.py, mstconfig().
    "firmware-dcbx": {
        "LLDP_NB_DCBX_P1": 1,
        "LLDP_NB_RX_MODE_P1": 2,
        "LLDP_NB_TX_MODE_P1": 2,
        "LLDP_NB_DCBX_P2": 1,
        "LLDP_NB_RX_MODE_P2": 2,
        "LLDP_NB_TX_MODE_P2": 2,
    },
    # WEKA documentation, "Prepare the system", 3: ports that WEKA uses.
    "weka": {"ADVANCED_PCI_SETTINGS": 1, "PCI_WR_ORDERING": 1},
}


def settings(profiles: list[str]) -> dict[str, int]:
    """Return the settings of profiles; a later profile wins."""
    return {name: value for each in profiles for name, value in PROFILES[each].items()}
