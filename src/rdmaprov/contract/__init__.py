"""The rules between variables, each with an id, a sentence and a source."""

from __future__ import annotations

from rdmaprov.contract import (
    acceptance,
    ets,
    memory,
    modules,
    naming,
    nccl,
    node,
    planes,
    qos,
    rails,
    ranges,
    software,
)
from rdmaprov.contract.rule import FleetRule, Rule
from rdmaprov.inventory.model import Fleet
from rdmaprov.problem import Problem, merge_problems

__all__ = ["RULES", "FleetRule", "Rule", "problems"]

RULES: tuple[Rule | FleetRule, ...] = (
    *naming.RULES,
    *ranges.RULES,
    *node.RULES,
    *rails.RULES,
    *planes.RULES,
    *qos.RULES,
    *ets.RULES,
    *nccl.RULES,
    *memory.RULES,
    *modules.RULES,
    *software.RULES,
    *acceptance.RULES,
)


def problems(fleet: Fleet) -> list[Problem]:
    """Return every problem of a site, those of loading it included, sorted by file and line."""
    found = [problem for rule in RULES for problem in rule.problems(fleet.nodes)]
    return merge_problems([*fleet.problems, *_causes(found, fleet)])


def _causes(problems: list[Problem], fleet: Fleet) -> list[Problem]:
    """Return the problems without those of variables that a node derives from a wrong one."""
    sets = {node.name: node.written for node in fleet.nodes}
    direct = [p for p in problems if p.variable in sets[p.hosts[0]]]
    explained = {host for problem in (*fleet.problems, *direct) for host in problem.hosts}
    return [*direct, *(p for p in problems if p.hosts[0] not in explained)]
