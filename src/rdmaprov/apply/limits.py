"""How much of a fleet at once, and how many failures: numbers and percentages, as Ansible's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible.utils.helpers import pct_to_int

from rdmaprov.errors import UsageError

# Of a failure more than N, as Ansible compares shares of a batch by "more than".
_NEARLY_ONE = 0.99


@dataclass(frozen=True)
class Share:
    """A number of nodes, or a percentage of them."""

    number: int
    percent: bool

    def __str__(self) -> str:
        """Return it as it was written."""
        return f"{self.number}{'%' if self.percent else ''}"

    def of(self, total: int) -> int:
        """Return how many of so many nodes, as Ansible's serial counts: at least one."""
        return int(pct_to_int(str(self), total))


def parse_share(option: str, text: str, least: int) -> Share:
    """Return what an option says.

    Raises:
        UsageError: it is not N or N%, or out of range.

    """
    found = re.fullmatch(r"([0-9]{1,6})(%?)", text.strip())
    if found is not None:
        parsed = Share(int(found[1]), bool(found[2]))
        if parsed.number >= least and not (parsed.percent and parsed.number > 100):
            return parsed
    raise UsageError(
        f"{option} {text} is not possible",
        f"Write a number of nodes from {least} on, or {least}% to 100%.",
    )


def max_fail_percentage(most: Share, serial: Share | None, hosts: int) -> float:
    """Return Ansible's max_fail_percentage that stops a batch at the first failure too many.

    Ansible stops when failures / batch size is more than it, so N itself must lie below and
    N + 1 above. It takes one percentage for all batches: the highest that is right for a whole
    batch is the mildest for the last one, which may be smaller.
    """
    if most.percent:
        return float(most.number)
    batch = min(serial.of(hosts), hosts) if serial else hosts
    return min(100.0, 100 * (most.number + _NEARLY_ONE) / max(batch, 1))
