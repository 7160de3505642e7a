"""The rules between variables, each with an id, a sentence and a source."""

from __future__ import annotations

from rdmaprov.contract import (
    causes,
    ets,
    launchers,
    memory,
    modules,
    naming,
    nccl,
    node,
    partitions,
    planes,
    qos,
    rails,
    ranges,
    software,
    subnet,
    subnet_manager,
    waivers,
)
from rdmaprov.contract.rule import FleetRule, Rule
from rdmaprov.contract.waivers import Waived
from rdmaprov.inventory.model import Fleet
from rdmaprov.problem import Problem

__all__ = ["RULES", "FleetRule", "Rule", "Waived", "judge", "problems"]

_RULES: tuple[Rule | FleetRule, ...] = (
    *naming.RULES,
    *ranges.RULES,
    *node.RULES,
    *rails.RULES,
    *planes.RULES,
    *subnet.RULES,
    *partitions.RULES,
    *partitions.IPOIB_RULES,
    *subnet.SHARP_RULES,
    *subnet.ADAPTIVE_ROUTING_RULES,
    *subnet_manager.RULES,
    *qos.RULES,
    *ets.RULES,
    *nccl.RULES,
    *memory.RULES,
    *modules.RULES,
    *modules.FIRMWARE_RULES,
    *software.RULES,
    *launchers.FLOOR_RULES,
    *launchers.RULES,
    *launchers.SCHEDULER_RULES,
)
# `validate` judges rails.slot, by what nodes show of their cards.
RULES = (*_RULES, *waivers.rules([*(rule.id for rule in _RULES), "rails.slot"]))


def problems(fleet: Fleet) -> list[Problem]:
    """Return every problem of a site, those of loading it included, sorted by file and line."""
    return judge(fleet)[0]


def judge(fleet: Fleet) -> tuple[list[Problem], list[Waived]]:
    """Return a site's problems as `problems` does, and those that it waives."""
    found = [problem for rule in RULES for problem in rule.problems(fleet.nodes)]
    stay, waived = waivers.split(found, {node.name: node for node in fleet.nodes})
    return causes.only_causes(fleet, stay), waivers.merge(waived)
