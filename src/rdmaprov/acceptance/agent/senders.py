"""Which rank makes results wrong: everyone's values on everyone, then sums of pairs."""

from __future__ import annotations

from .group import RankGroup
from .pattern import PERIOD


def find_wrong_ranks(group: RankGroup) -> None:
    """Report whose values arrive wrong, in one collective at any number of ranks."""
    torch, values = group.torch, group.values()
    given = torch.empty(PERIOD, dtype=torch.int32, device=group.device)
    values.fill_own(given)
    out = torch.empty(PERIOD * len(group.ranks), dtype=torch.int32, device=group.device)
    group.time_run(lambda: group.dist.all_gather_into_tensor(out, given, group=group.handle))
    for source, rank in enumerate(group.ranks):
        part = out[source * PERIOD : (source + 1) * PERIOD].view(1, -1)
        found = values.wrong_moved(part, source, 0)
        if found[0]:
            group.say("source", source=rank, first=found)
