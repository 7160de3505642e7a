"""The subnet managers of a site: who, on which rails, with which engines and roots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_HOSTS = "subnet_manager_hosts"
_RAILS = "subnet_manager_rails"
_ENGINES = "subnet_manager_routing_engines"
_PLANNED = "fabric_routing_engine"
_ROOTS = "subnet_manager_root_guids"
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
# opensm(8), option -R. The vendor's opensm has adaptive ones beside them, such as ar_updn.
_OPEN = ("minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp",
         "sssp", "no_fallback")  # fmt: skip
_ADAPTIVE = re.compile(r"ar_[a-z0-9_]+")
# From 14 down to 0: plugins/module_utils/subnet_manager/settings.py, FIRST_PRIORITY.
_MOST_HOSTS = 15
# Variables in which all managers must agree: two masters in turn would write different tables.
_SHARED = (
    _HOSTS,
    _RAILS,
    _ENGINES,
    _ROOTS,
    "subnet_manager_partitions",
    "subnet_manager_qos",
    "subnet_manager_settings",
    "subnet_manager_polling_timeout_ms",
    "subnet_manager_polling_retries",
    "subnet_manager_beside",
)
_IBTA = "InfiniBand Architecture 1.5, 14.4.1: initialization of subnet managers"
_MAN = "opensm(8)"


def _hosts(node: Node) -> Iterator[Violation]:
    names = list(node.get(_HOSTS) or ())
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield Violation(_HOSTS, f"{name} is listed {names.count(name)} times", "write it once")
    if len(names) > _MOST_HOSTS:
        message = f"{len(names)} hosts, and there are priorities for {_MOST_HOSTS}"
        yield Violation(_HOSTS, message, "write fewer")


def _nodes(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    by_name = {node.name: node for node in nodes}
    for node in nodes:
        for index, name in enumerate(node.get(_HOSTS) or ()):
            other = by_name.get(name)
            if other is not None and other.get("fabric_kind") == "infiniband":
                continue
            what = "is no node of the site" if other is None else "has no InfiniBand (fabric_kind)"
            yield node, Violation(_HOSTS, f"{name} {what}", "name nodes with a port", (index,))
        if node.get(_HOSTS):
            return  # rule subnet-manager.same: all nodes have one list


def _rails(node: Node) -> Iterator[Violation]:
    if not node.rails or node.name not in (node.get(_HOSTS) or ()):
        return
    for index, rail in enumerate(node.get(_RAILS) or ()):
        if isinstance(rail, int) and not 0 <= rail < len(node.rails):
            message = f"there is no rail {rail}; the node has {len(node.rails)}"
            yield Violation(_RAILS, message, "write numbers of fabric_rails", (index,))


def _engines(node: Node) -> Iterator[Violation]:
    for index, name in enumerate(node.get(_ENGINES) or ()):
        if name not in _OPEN and not _ADAPTIVE.fullmatch(name):
            remedy = f"write one of {', '.join(_OPEN)}, or an adaptive one, such as ar_updn"
            yield Violation(_ENGINES, f"'{name}' is no routing engine of opensm", remedy, (index,))


def _planned_engine(node: Node) -> Iterator[Violation]:
    name, own = node.get(_PLANNED), node.get(_ENGINES)
    if is_roce(node) or not name:
        return
    if name == "no_fallback" or (name not in _OPEN and not _ADAPTIVE.fullmatch(name)):
        remedy = "write one of opensm(8), such as ftree, updn or ar_updn"
        yield Violation(_PLANNED, f"'{name}' is no routing engine of opensm", remedy)
    elif node.get(_HOSTS) and _ENGINES in node.written and own and own[0] != name:
        message = f"the manager tries {own[0]} first, but {_PLANNED} is {name}"
        yield Violation(_ENGINES, message, f"write {name} first, or remove the line", (0,))


def _same_planned_engine(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    others = [node for node in nodes if not is_roce(node)]
    for node in others[1:]:
        if node.get(_PLANNED) != others[0].get(_PLANNED):
            message = f"it is not that of {others[0].name}"
            yield node, Violation(_PLANNED, message, "write it once, for all nodes")


def _roots(node: Node) -> Iterator[Violation]:
    for variable in (_ROOTS, "subnet_manager_beside"):
        for index, text in enumerate(node.get(variable) or ()):
            if not _GUID.fullmatch(str(text)):
                remedy = "write it in quotes, as ibswitches shows it: '0x0123456789abcdef'"
                yield Violation(variable, f"'{text}' is no GUID", remedy, (index,))
    if node.get(_ROOTS) and len(node.get(_RAILS) or ()) > 1:
        message = f"root GUIDs are one subnet's, and {_RAILS} names several"
        yield Violation(_ROOTS, message, "leave them out: ftree and updn find the roots")


def _same(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    named = {name for node in nodes for name in node.get(_HOSTS) or ()}
    managers = [node for node in nodes if node.name in named]
    for variable in _SHARED:
        for node in managers[1:]:
            if node.get(variable) != managers[0].get(variable):
                message = f"it is not that of {managers[0].name}, and both manage the subnet"
                yield node, Violation(variable, message, "write it once, for all nodes")


RULES = (
    Rule("subnet-manager.hosts", "Each host of a subnet manager has a priority of its own.",
         _IBTA, _hosts),
    FleetRule("subnet-manager.nodes", "Subnet managers run on InfiniBand nodes of the site.",
              _IBTA, _nodes),
    Rule("subnet-manager.rails", "A manager's rails are rails of its node.", _MAN, _rails),
    Rule("subnet-manager.engines", "Routing engines are known to opensm.",
         "opensm(8), -R", _engines),
    Rule("subnet.engine", "The plan's routing engine is known to opensm, and the manager's first.",
         "opensm(8), -R", _planned_engine),
    FleetRule("subnet.engines", "All nodes have the same routing engine in their plan.",
              _IBTA, _same_planned_engine),
    Rule("subnet-manager.guids", "Root GUIDs have the form of GUIDs, and are those of one subnet.",
         "opensm(8), -a", _roots),
    FleetRule("subnet-manager.same", "All managers of a subnet have the same settings.",
              _IBTA, _same),
)  # fmt: skip
