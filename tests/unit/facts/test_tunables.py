"""What `ethtool --get-tunable` says of PFC storm prevention.

The words are those of ethtool.c (print_tunable, do_gtunable, exit_bad_args).
"""

from pathlib import Path

import pytest
import yaml
from plugins.module_utils import nic_firmware

from rdmaprov.facts import CouldNotTell
from rdmaprov.facts import firmware_profiles as suite
from rdmaprov.facts.text import Output
from rdmaprov.facts.tunables import parse_pfc_timeout

BAD = "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n"


@pytest.mark.parametrize(
    ("done", "milliseconds"),
    [
        (Output(0, "pfc-prevention-tout: 8000\n", ""), 8000),
        (Output(0, "pfc-prevention-tout: 0\n", ""), 0),
        (Output(95, "", "pfc-prevention-tout: Cannot get tunable\n"), None),
        (Output(1, "", BAD), None),
    ],
)
def test_timeout_is_read(done: Output, milliseconds: int | None):
    assert parse_pfc_timeout(done, "ethtool") == milliseconds


@pytest.mark.parametrize(
    "done",
    [
        Output(0, "", ""),
        Output(0, "pfc-prevention-tout: Unknown format\n", ""),
        Output(0, "pfc-prevention-tout: -1\n", ""),
        Output(1, "", "Cannot open control socket: Permission denied\n"),
        Output(1, "pfc-prevention-tout: 8000\n", ""),
    ],
)
def test_other_answers_tell_nothing(done: Output):
    with pytest.raises(CouldNotTell, match="ethtool: "):
        parse_pfc_timeout(done, "ethtool")


SPEC = Path(__file__).parents[3] / "roles/mlx5/meta/argument_specs.yml"


def test_role_and_suite_have_the_same_profiles():
    assert nic_firmware.PROFILES == suite.PROFILES


def test_every_profile_can_be_chosen():
    options = yaml.safe_load(SPEC.read_text())["argument_specs"]["main"]["options"]
    assert options["mlx5_firmware_profiles"]["choices"] == list(nic_firmware.PROFILES)


def test_later_profile_wins_in_both():
    chosen = ["host-dcbx", "gpudirect", "firmware-dcbx"]
    assert nic_firmware.settings(chosen) == suite.settings(chosen)
    assert nic_firmware.settings(chosen)["LLDP_NB_TX_MODE_P2"] == 2
