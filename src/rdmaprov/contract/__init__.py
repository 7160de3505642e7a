"""The rules between variables, each with an id, a sentence and a source."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from rdmaprov.contract import (
    launchers,
    memory,
    modules,
    naming,
    nccl,
    node,
    partitions,
    qos,
    rails,
    ranges,
    subnet,
    waivers,
    ways,
)
from rdmaprov.contract.rule import FleetRule, Rule, SiteRule
from rdmaprov.contract.waivers import Waived
from rdmaprov.inventory import schema
from rdmaprov.inventory.expression import parse
from rdmaprov.inventory.model import Fleet
from rdmaprov.inventory.nodes import no_collection
from rdmaprov.problem import Problem, gather_places, merge_problems

__all__ = ["RULES", "FleetRule", "Rule", "Waived", "judge", "problems"]

_RULES: tuple[Rule | FleetRule | SiteRule, ...] = (
    *naming.RULES,
    *ranges.RULES,
    *node.RULES,
    *rails.RULES,
    *rails.FLEET_RULES,
    *subnet.RULES,
    *partitions.RULES,
    *partitions.IPOIB_RULES,
    *subnet.SHARP_RULES,
    *subnet.ADAPTIVE_ROUTING_RULES,
    *subnet.MANAGER_RULES,
    *qos.RULES,
    *qos.ETS_RULES,
    *nccl.RULES,
    *memory.RULES,
    *modules.RULES,
    *modules.FIRMWARE_RULES,
    *modules.SOFTWARE_RULES,
    *launchers.FLOOR_RULES,
    *launchers.RULES,
    *launchers.SCHEDULER_RULES,
    *ways.RULES,
)
# `validate` judges rails.slot, by what nodes show of their cards.
RULES = (*_RULES, *waivers.rules([*(rule.id for rule in _RULES), "rails.slot"]))


def problems(fleet: Fleet) -> list[Problem]:
    """Return every problem of a site, those of loading it included, sorted by file and line."""
    return judge(fleet)[0]


def judge(fleet: Fleet) -> tuple[list[Problem], list[Waived]]:
    """Return a site's problems as `problems` does, and those that it waives."""
    with no_collection():
        found = [problem for rule in RULES for problem in rule.problems(fleet)]
    stay, waived = waivers.split(found, {node.name: node for node in fleet.nodes})
    return only_causes(fleet, stay), waivers.merge(waived)


def only_causes(fleet: Fleet, found: Iterable[Problem]) -> list[Problem]:
    """Return every problem of a site, those of loading it included, sorted by file and line.

    A role's default that is made from a wrong value is left out: the value is reported. What no
    file states has one line for all nodes.
    """
    written = {node.name: node.written for node in fleet.nodes}
    loaded = [(problem, host) for problem in fleet.problems for host in problem.hosts]
    judged = [(problem, problem.hosts[0]) for problem in found]
    direct = [(each, host) for each, host in judged if each.variable in written[host]]
    wrong = {(host, each.variable) for each, host in (*loaded, *direct)}
    causes = [
        each
        for each, host in judged
        if not any((host, name) in wrong for name in _sources(each.variable, written[host]))
    ]

    def is_written(problem: Problem) -> bool:
        hosts = problem.hosts
        return not hosts or problem.variable in written.get(hosts[0], {problem.variable})

    return merge_problems(gather_places(merge_problems([*fleet.problems, *causes]), is_written))


def _sources(name: str, written: Collection[str]) -> Iterator[str]:
    """Yield what a variable is made from, if the site leaves it to its role's default."""
    waiting = [] if name in written else list(_mentioned(name))
    known: set[str] = set()
    while waiting:
        source = waiting.pop()
        if source not in known:
            known.add(source)
            if source not in written:
                waiting += _mentioned(source)
            yield source


@cache
def _mentioned(name: str) -> frozenset[str]:
    """Return the variables that a role's default mentions."""
    defaults: Mapping[str, object] = schema.load_shipped().defaults
    default = defaults.get(name)
    return parse(default).names if isinstance(default, str) else frozenset()
