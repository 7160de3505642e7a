"""Equal troubles of two runs: by their kinds; where a run has none, by what is left of a text."""

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from rdmaprov.history.digest import Trouble
from rdmaprov.runs.groups import name_masker

_Run = TypeVar("_Run")
_NUMBER = re.compile(r"\d[\d.,]*")


def key_maker(names: Collection[str]) -> Callable[[str], str]:
    """Return a function that makes the key of a text.

    >>> key_maker({"gpu1"})("gpu1 ens1: sent 11.2 GB, 21 % of the mean")
    '* *: sent # GB, # % of the mean'
    """
    mask = name_masker(names)
    return lambda text: _NUMBER.sub("#", mask(text))


def common_keys(
    runs: Sequence[_Run], troubles_of: Callable[[_Run], Sequence[Trouble]]
) -> Mapping[str, str]:
    """Return by the key of a trouble without a kind the one that the same trouble has now.

    It is the one with the same words; else, between the last run without kinds and the first one
    with them, the one at the same node and rail: words changed with the version, too.

    Args:
        runs: of one verb, the oldest first.
        troubles_of: reads those of a run; two runs' are kept at a time.
    """
    found = {each.words: each.key for run in runs for each in troubles_of(run) if _has_kind(each)}
    if not found:
        return found
    for old, new in itertools.pairwise(map(troubles_of, runs)):
        named = [each for each in new if _has_kind(each)]
        left = [each for each in old if not _has_kind(each) and each.words not in found]
        taken = {(found.get(each.words, ""), each.node, each.rail) for each in old}
        for each in left:
            for one in named:
                at = one.key, each.node, each.rail
                if (one.node, one.rail) == at[1:] and at not in taken:
                    found.setdefault(each.words, one.key)
                    break
    return found


def _has_kind(each: Trouble) -> bool:
    return each.key != each.words
