"""Equal troubles of two runs: what is left of a text without its nodes, devices and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from rdmaprov.runs.groups import name_masker

_NUMBER = re.compile(r"\d[\d.,]*")


def key_maker(names: Collection[str]) -> Callable[[str], str]:
    """Return a function that makes the key of a text.

    >>> key_maker({"gpu1"})("gpu1 ens1: sent 11.2 GB, 21 % of the mean")
    '* *: sent # GB, # % of the mean'
    """
    mask = name_masker(names)
    return lambda text: _NUMBER.sub("#", mask(text))
