"""Role, suite and argument spec know the same firmware profiles."""

from __future__ import annotations

from pathlib import Path

import yaml
from plugins.module_utils import nic_profiles as role

from rdmaprov.facts import firmware_profiles as suite

SPEC = Path(__file__).parents[3] / "roles/mlx5/meta/argument_specs.yml"


def test_role_and_suite_have_the_same_profiles():
    assert role.PROFILES == suite.PROFILES


def test_every_profile_can_be_chosen():
    options = yaml.safe_load(SPEC.read_text())["argument_specs"]["main"]["options"]
    assert options["mlx5_firmware_profiles"]["choices"] == list(role.PROFILES)


def test_later_profile_wins_in_both():
    chosen = ["host-dcbx", "gpudirect", "firmware-dcbx"]
    assert role.settings(chosen) == suite.settings(chosen)
    assert role.settings(chosen)["LLDP_NB_TX_MODE_P2"] == 2
