"""What a finding can be: each kind by its id, what it means, what was seen, and usual causes.

The table is kinds.csv, and docs/findings.md is written from it. An id never changes: history and
receivers of notifications know a fault by it.
"""

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple


class FindingKind(NamedTuple):
    """What all findings of a kind have in common."""

    # `yes` if what is at fault can be replaced, `no` for a setting, a process and the like
    part: str
    means: str  # what is wrong; unknown, where a finding is not verified
    seen: str
    causes: str  # the usual ones, the most frequent one first, and what to do


# The remedy of each rail.unsupported.
UNFIT = "Name a device whose data is on port 1 (fabric_rails); see: rdma link; docs/supported.md"


@cache
def kinds() -> Mapping[str, FindingKind]:
    """Return the kinds by their ids, in alphabetical order."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8") as file:
        return {row.pop("kind"): FindingKind(**row) for row in csv.DictReader(file)}
