"""What `ethtool --get-tunable` says of PFC storm prevention.

The words are those of ethtool.c (print_tunable, do_gtunable, exit_bad_args).
"""

from __future__ import annotations

import pytest

from rdmaprov.facts import CouldNotTell
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
