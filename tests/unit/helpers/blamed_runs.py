"""Who is at fault in a run that failed."""

from __future__ import annotations

from tests.unit.helpers.nccl_runs import GPUS, places, time_out

from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.finding.finding import Finding

ALL_NODES = 8


def judge(ran, per_leaf=0, rails=GPUS):
    return blame.findings(ran, places(len(ran.nodes), rails, per_leaf))


def named(found: list[Finding]):
    return {(each.level, each.nodes, each.rail) for each in found}


def all_waited(ran, *others):
    """Let torch's watchdog end a rank of each node that did not say anything else."""
    for index, (name, node) in enumerate(ran.nodes.items()):
        if name not in others and not (node.errors or node.ended):
            time_out(node, index * GPUS)
