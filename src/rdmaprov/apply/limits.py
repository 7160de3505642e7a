"""Shares of a fleet, as numbers or percentages: how many nodes at a time, how many failures."""

import re
from dataclasses import dataclass

from ansible.utils.helpers import pct_to_int

from rdmaprov.errors import UsageError

# Added to N failures, as Ansible stops at a share of a batch above its limit.
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
        """Return the number of nodes out of a total, as Ansible's serial counts: at least one."""
        return int(pct_to_int(str(self), total))


def parse_share(option: str, text: str, least: int) -> Share:
    """Return the share that an option names; raise UsageError if it is no N or N% in range."""
    found = re.fullmatch(r"([0-9]{1,6})(%?)", text.strip())
    if found is not None:
        parsed = Share(int(found[1]), bool(found[2]))
        if parsed.number >= least and not (parsed.percent and parsed.number > 100):
            return parsed
    raise UsageError(
        f"{option} must be at least {least} (or {least}% to 100%), not {text or 'empty'}",
        "Pass a number of nodes, such as 8, or a percentage, such as 25%.",
    )


def max_fail_percentage(most: Share, serial: Share | None, hosts: int) -> float:
    """Return the max_fail_percentage with which Ansible stops a batch after more than N failures.

    Ansible stops when failures / batch size is more than it, so N itself must lie below and
    N + 1 above. It takes one percentage for all batches: the highest that is right for a whole
    batch is the mildest for the last one, which may be smaller.
    """
    if most.percent:
        return float(most.number)
    batch = min(serial.of(hosts), hosts) if serial else hosts
    return min(100.0, 100 * (most.number + _NEARLY_ONE) / max(batch, 1))
