"""A floor, the judgement by it, and its verdict."""

from dataclasses import dataclass
from enum import StrEnum

from rdmaprov.bandwidth.signatures import Cause


class FloorVerdict(StrEnum):
    """The verdict on a measurement."""

    HEALTHY = "healthy"
    SLOW = "slow"
    IMPOSSIBLE = "impossible"  # more than the links carry
    NOT_JUDGED = "not judged"  # too little is known of links like these


@dataclass(frozen=True)
class Floor:
    """What a fabric must and can reach, in GB/s of bus bandwidth."""

    ceiling_gb_s: float  # what the algorithm reaches at most; a ring where it is not known
    derived_gb_s: float  # what a healthy fleet of this size reaches
    floor_gb_s: float  # what is demanded: the derived floor, or that of the site
    # what the rails carry at most, by the algorithm or by any; infinite where NVLink or PCIe carry
    # all
    most_gb_s: float
    derivation: str  # how these follow from the fabric, in sentences
    reason: str = ""  # why the site demands less; empty if it does not
    algorithm: str = "auto"  # what NCCL took; `auto` if it is not known
    candidates: tuple[str, ...] = ()  # the algorithms of which the floor is the least


@dataclass(frozen=True)
class Judgement:
    """A floor, a measurement, and the verdict on it."""

    floor: Floor
    verdict: FloorVerdict | None  # None without a measurement
    sentence: str
    # what explains the number, the sharpest first; none if it is healthy
    likely_causes: tuple[Cause, ...] = ()
    notes: tuple[str, ...] = ()  # what the number alone does not show
