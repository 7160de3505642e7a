"""Which rank makes results wrong: everyone's values on everyone, then the collective by pairs."""

from __future__ import annotations

from .collectives import COLLECTIVES
from .group import RankGroup
from .pattern import PERIOD, pair_rounds

_MOST_BYTES = 16 << 20
_TRIES = 3


def find_wrong_ranks(group: RankGroup) -> None:
    """Report whose values arrive wrong, and which pairs of ranks get wrong results.

    It takes one collective of all ranks and four of pairs, side by side, at any number of ranks.
    """
    _gather_own(group)
    for pairs in pair_rounds(len(group.ranks)):
        for pair in pairs:
            if group.rank in pair:
                _try_pair(group, group.part([group.ranks[place] for place in pair]))


def _gather_own(group: RankGroup) -> None:
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


def _try_pair(group: RankGroup, pair: RankGroup) -> None:
    """Run the task's collective on a pair, and report how much of what comes of it is wrong."""
    dtype = getattr(group.torch, group.task["dtypes"][0])
    width = group.torch.empty(0, dtype=dtype).element_size()
    count = min(max(group.task["sizes"]), _MOST_BYTES) // width
    made = COLLECTIVES[group.task["collective"]](pair, pair.values(), count, dtype)
    wrong = 0
    for salt in range(_TRIES):
        made.fill(salt)
        made.prepare(in_place=False)
        pair.time_run(lambda: made.run(in_place=False))
        wrong += made.wrong(salt)[0]
    group.say("witness", peer=pair.ranks[1 - pair.rank], wrong=wrong)
    group.process.drop(pair)
