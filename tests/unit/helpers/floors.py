"""What the tests of the floor ask of it."""

from pathlib import Path

from rdmaprov.bandwidth.fabric import Fabric
from rdmaprov.bandwidth.floor import derive, judge

H100 = Fabric(16, 8, 8, 400)
DOCS = Path(__file__).parents[3] / "docs"


def verdict(fabric, measured, **how):
    return judge(fabric, derive(fabric, **how), measured).verdict


def causes(fabric, measured):
    return [cause.id for cause in judge(fabric, derive(fabric), measured).likely_causes]
