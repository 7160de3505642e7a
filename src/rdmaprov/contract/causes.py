"""The causes among a site's problems: what a node derives from a wrong value is wrong, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from rdmaprov.inventory import schema
from rdmaprov.inventory.expression import parse
from rdmaprov.inventory.model import Fleet
from rdmaprov.problem import Problem, gather_places, merge_problems


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
