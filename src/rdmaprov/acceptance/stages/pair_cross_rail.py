"""Paths from each rail to the others, where they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rdmaprov.acceptance.live import isolate
from rdmaprov.acceptance.paths.plan import PathPlan
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.perftest.matchings import Matching
from rdmaprov.perftest.matrix import PathMatrix
from rdmaprov.perftest.model import PathMeasurer, PathTest
from rdmaprov.words import quantity

# Each port with three others at least, as many as tell a port from its partner.
_LEAST_MATCHINGS = 3


def add_cross_rail_paths(
    stage: StageReport, within: PathMatrix, plan: PathPlan, measurer: PathMeasurer, size: int
) -> None:
    """Test paths from each rail to each other one, and add what came of them to the stage.

    Where none of them carries anything, the rails are networks of their own, and no fault.

    Args:
        stage: its report; what it names already is not named again.
        size: bytes of a message.
    """
    others = len(plan.rails) - 1
    if not others:
        stage.notes.append("paths between rails: there is one rail")
        return
    matrix = PathMatrix(
        plan.leaf_of,
        within.ceiling,
        share=within.share,
        mild_share=within.mild_share,
        across=within.across,
    )

    def make(matching: Matching) -> Sequence[PathTest]:
        shifted = matching if matching.shift else replace(matching, shift=1)
        return shifted.tests(plan.rails, size=size)

    rounds = [
        replace(plan.few[number % len(plan.few)], shift=1 + number % others)
        for number in range(max(_LEAST_MATCHINGS, others))
    ]
    parts = plan.search(measurer, matrix, make).run(rounds)
    paths = quantity(len(matrix.samples), "path")
    if matrix.samples and not any(matrix.value(path) for path in matrix.samples):
        stage.notes.append(
            f"{paths} from one rail to another carry nothing: the rails are separate networks"
        )
        return
    known = {node for finding in stage.findings for node in finding.nodes}
    stage.findings += isolate.findings(
        [part for part in parts if part.kind in ("fleet", "leaf") or known.isdisjoint(part.nodes)]
    )
    stage.said += f"; {paths} between rails"
    if unknown := matrix.unknown.keys() - matrix.samples.keys():
        stage.notes.append(f"{quantity(len(unknown), 'path')} between rails not verified")
