"""What mstconfig's query shows of firmware settings, and how values are compared."""

from __future__ import annotations

import pytest
from plugins.module_utils.nic_firmware import means, parse
from tests.roles.firmware_texts import query_text


@pytest.mark.parametrize(
    ("name", "setting", "current", "next_boot"),
    [
        ("connectx5-extended", "ADVANCED_PCI_SETTINGS", "True(1)", "True(1)"),
        ("connectx5-extended", "MEMIC_BAR_SIZE", "0", "0"),
        ("connectx4-extended", "MEMIC_SIZE_LIMIT", "_256KB(1)", "DISABLED(0)"),
        ("connectx4-next-boot", "SRIOV_EN", "", "False(0)"),
        ("connectx5-set", "UCTX_EN", "", "False(0)"),
        ("gid-routing", "SRIOV_IB_ROUTING_MODE_P1", "GID(1)", "GID(0)"),
        ("wide", "NUM_OF_VFS", "16", "8"),
        ("wide", "PCI_WR_ORDERING", "per_mkey(0)", "force_relax(1)"),
    ],
)
def test_settings_are_read_by_the_header(name: str, setting: str, current: str, next_boot: str):
    found = parse(query_text(name))[setting]
    assert (found.current, found.next_boot) == (current, next_boot)


@pytest.mark.parametrize(
    ("name", "count"),
    [("connectx5-extended", 5), ("connectx4-next-boot", 9), ("wide", 5), ("no-device", 0)],
)
def test_no_other_line_is_a_setting(name: str, count: int):
    assert len(parse(query_text(name))) == count


def test_read_only_settings_are_marked():
    found = parse(query_text("wide"))
    assert [name for name in found if found[name].read_only] == [
        "HOST_CHAINING_DESCRIPTORS",
        "ROCE_CONTROL",
    ]


@pytest.mark.parametrize(
    ("shown", "wanted", "same"),
    [
        ("True(1)", True, True),
        ("True(1)", "1", True),
        ("False(0)", True, False),
        ("ETH(2)", "eth", True),
        ("ETH(2)", 2, True),
        ("ETH(2)", 1, False),
        ("_256KB(1)", "_256KB", True),
        ("16", "0x10", True),
        ("1", True, True),
    ],
)
def test_values_are_compared_by_meaning(shown: str, wanted: object, same: bool):
    assert means(shown, wanted) is same
