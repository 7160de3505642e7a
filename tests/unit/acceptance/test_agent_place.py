"""Where a rank was that is late: what it waits in, and not what Python did there meanwhile."""

from __future__ import annotations

from traceback import FrameSummary

import pytest

from rdmaprov.acceptance.agent.progress import place
from rdmaprov.acceptance.at_fault.waiting import elsewhere_sign

MAIN = FrameSummary("/run/x/agent.pyz/agent/main.py", 40, "_perform_all")
WAIT = FrameSummary("/opt/torch/distributed/distributed_c10d.py", 3149, "all_reduce")
TIDY = FrameSummary("/opt/torch/library.py", 665, "_del_library")
HOOK = FrameSummary("/opt/site/sitecustomize.py", 16, "all_reduce")


@pytest.mark.parametrize(
    ("stack", "seen"),
    [
        ([MAIN, WAIT], ""),
        ([MAIN, WAIT, TIDY], ""),
        ([TIDY], ""),  # as seen of a rank that ended, on a busy machine
        ([MAIN, HOOK], "it was in /opt/site/sitecustomize.py:16 all_reduce"),
        ([MAIN, TIDY], "it was in /opt/torch/library.py:665 _del_library"),
    ],
)
def test_rank_is_accused_of_what_it_does_itself_alone(stack, seen):
    sign = elsewhere_sign({"where": place(stack)})
    assert sign == (f"{seen}, not in torch.distributed" if seen else "")
