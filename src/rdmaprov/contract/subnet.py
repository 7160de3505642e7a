"""The plan of an InfiniBand subnet: devices and leaves of rails, spines, subnet managers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from rdmaprov.contract.rails import PLAN
from rdmaprov.contract.rule import FleetRule, Rule, Violation, is_roce
from rdmaprov.inventory.model import Node

_ADAPTIVE, _VARIABLE = "fabric_adaptive_routing", "NCCL_IB_ADAPTIVE_ROUTING"
_LEVEL = "fabric_service_level"
_ROUTING_SOURCE = "NCCL docs, env.rst: NCCL_IB_ADAPTIVE_ROUTING"
_SHARP, _ENV = "fabric_sharp", "nccl_environment"
# A node sends and receives S by SHARP, and 2 (n - 1) / n of S by a ring: on two nodes the same.
_LEAST_NODES = 3
_RAILS = "fabric_rails"
_SPINES = "fabric_spines"
# A device: Linux include/rdma/ib_verbs.h, IB_DEVICE_NAME_MAX with its final zero.
_DEVICE = re.compile(r"[\w.-]{1,63}")


def _service_level(node: Node) -> Iterator[Violation]:
    if node.get(_ADAPTIVE) == "on" and not is_roce(node) and _LEVEL not in node.written:
        message = f"adaptive routing is on, and the site names no {_LEVEL}"
        remedy = f"write {_LEVEL}: one for which the subnet manager has adaptive routing on"
        yield Violation(_ADAPTIVE, message, remedy, (), (_LEVEL,))


def _once(node: Node) -> Iterator[Violation]:
    wanted = {"on": "1", "off": "0"}.get(str(node.get(_ADAPTIVE)))
    written = (node.get(_ENV) or {}).get(_VARIABLE)
    if wanted is not None and written is not None and str(written) != wanted:
        message = f"{_ADAPTIVE} is {node.get(_ADAPTIVE)}, but {_VARIABLE} is {written}"
        yield Violation(_ENV, message, f"remove it: rdmaprov sets {_VARIABLE}", (_VARIABLE,))


ADAPTIVE_ROUTING_RULES = (
    Rule("adaptive-routing.service-level",
         "With adaptive routing, the site names the service level that has it.", _ROUTING_SOURCE,
         _service_level),
    Rule("adaptive-routing.once", "NCCL is told once whether to allow adaptive routing.",
         _ROUTING_SOURCE, _once),
)  # fmt: skip


def _wanted(node: Node) -> bool:
    return bool(node.get(_SHARP) == "wanted")


def _kind(node: Node) -> Iterator[Violation]:
    if _wanted(node) and is_roce(node):
        message = "SHARP is wanted, but fabric_kind is roce"
        yield Violation(_SHARP, message, "remove the line: InfiniBand's switches alone reduce")


def _collnet(node: Node) -> Iterator[Violation]:
    written = (node.get(_ENV) or {}).get("NCCL_COLLNET_ENABLE")
    if _wanted(node) and written is not None and str(written) != "1":
        message = f"SHARP is wanted, but NCCL_COLLNET_ENABLE is {written}"
        remedy = "remove it: rdmaprov sets NCCL_COLLNET_ENABLE=1"
        yield Violation(_ENV, message, remedy, ("NCCL_COLLNET_ENABLE",))


def _enough(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    wanting = [node for node in nodes if _wanted(node) and not is_roce(node)]
    if wanting and len(nodes) < _LEAST_NODES:
        message = f"SHARP is wanted on {len(nodes)} nodes, between which a ring moves as much"
        yield wanting[0], Violation(_SHARP, message, "remove the line, or add nodes")


SHARP_RULES = (
    Rule("sharp.kind", "SHARP is wanted on InfiniBand alone.",
         "NVIDIA SHARP documentation: Quantum switches", _kind),
    Rule("sharp.collnet", "Where SHARP is wanted, NCCL's CollNet is on.",
         "NCCL docs, env.rst: NCCL_COLLNET_ENABLE", _collnet),
    FleetRule("sharp.nodes", "SHARP is wanted on three nodes or more.",
              "nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n is 1 for two", _enough),
)  # fmt: skip


def _devices(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.rdma and not _DEVICE.fullmatch(rail.rdma):
            message = f"'{rail.rdma}' is not the name of an RDMA device"
            remedy = "write the name that `ibstat -l` shows, such as mlx5_0"
            yield Violation(_RAILS, message, remedy, (rail.index, "rdma"))
    named = [bool(rail.rdma) for rail in node.rails]
    if any(named) and not all(named):
        index = named.index(False)
        message = f"rail {index} has no rdma, and others have"
        yield Violation(_RAILS, message, "write it for all rails of the node, or none", (index,))


def _leaves(node: Node) -> Iterator[Violation]:
    for rail in node.rails:
        if rail.leaf and rail.leaf in (node.get(_SPINES) or ()):
            message = f"{rail.leaf} is the leaf of rail {rail.index}, and in {_SPINES}"
            remedy = "write it in one of the two"
            yield Violation(_RAILS, message, remedy, (rail.index, "leaf"))


def _spines_once(node: Node) -> Iterator[Violation]:
    for name, count in Counter(node.get(_SPINES) or ()).items():
        if count > 1:
            yield Violation(_SPINES, f"{name} is listed {count} times", "write it once")


def _same_spines(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    first: Node | None = None
    for node in nodes:
        first = first or node
        if set(node.get(_SPINES) or ()) != set(first.get(_SPINES) or ()):
            message = f"the spines are not those of {first.name}"
            yield node, Violation(_SPINES, message, "write them once, for all nodes")


RULES = (
    Rule("subnet.devices",
         "Either every rail of a node has the name of its RDMA device, or none.",
         "Linux include/rdma/ib_verbs.h: IB_DEVICE_NAME_MAX; rdma-core, rdma-ndd(8)", _devices),
    Rule("subnet.leaves", "The leaf of a rail is no spine.", PLAN, _leaves),
    Rule("subnet.spines-once", "Each spine is listed once.",
         "InfiniBand Architecture 1.5, 14.2.5.2: NodeDescription", _spines_once),
    FleetRule("subnet.spines", "All nodes have the same spines above them.", PLAN, _same_spines),
)  # fmt: skip


_HOSTS = "subnet_manager_hosts"
_MANAGER_RAILS = "subnet_manager_rails"
_ENGINES = "subnet_manager_routing_engines"
_PLANNED = "fabric_routing_engine"
_ROOTS = "subnet_manager_root_guids"
_GUID = re.compile(r"0x[0-9a-fA-F]{1,16}")
# opensm(8), option -R. The vendor's opensm has adaptive ones beside them, such as ar_updn.
_OPEN = ("minhop", "updn", "dnup", "file", "ftree", "lash", "dor", "torus-2QoS", "nue", "dfsssp",
         "sssp", "no_fallback")  # fmt: skip
_ADAPTIVE_OPTION = re.compile(r"ar_[a-z0-9_]+")
# From 14 down to 0: plugins/module_utils/subnet_manager/settings.py, FIRST_PRIORITY.
_MOST_HOSTS = 15
# Variables in which all managers must agree: two masters in turn would write different tables.
_SHARED = (
    _HOSTS,
    _MANAGER_RAILS,
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
    for index, rail in enumerate(node.get(_MANAGER_RAILS) or ()):
        if isinstance(rail, int) and not 0 <= rail < len(node.rails):
            message = f"there is no rail {rail}; the node has {len(node.rails)}"
            yield Violation(_MANAGER_RAILS, message, "write numbers of fabric_rails", (index,))


def _engines(node: Node) -> Iterator[Violation]:
    for index, name in enumerate(node.get(_ENGINES) or ()):
        if name not in _OPEN and not _ADAPTIVE_OPTION.fullmatch(name):
            remedy = f"write one of {', '.join(_OPEN)}, or an adaptive one, such as ar_updn"
            yield Violation(_ENGINES, f"'{name}' is no routing engine of opensm", remedy, (index,))


def _planned_engine(node: Node) -> Iterator[Violation]:
    name, own = node.get(_PLANNED), node.get(_ENGINES)
    if is_roce(node) or not name:
        return
    if name == "no_fallback" or (name not in _OPEN and not _ADAPTIVE_OPTION.fullmatch(name)):
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
    if node.get(_ROOTS) and len(node.get(_MANAGER_RAILS) or ()) > 1:
        message = f"root GUIDs are one subnet's, and {_MANAGER_RAILS} names several"
        yield Violation(_ROOTS, message, "leave them out: ftree and updn find the roots")


def _same(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    named = {name for node in nodes for name in node.get(_HOSTS) or ()}
    managers = [node for node in nodes if node.name in named]
    for variable in _SHARED:
        for node in managers[1:]:
            if node.get(variable) != managers[0].get(variable):
                message = f"it is not that of {managers[0].name}, and both manage the subnet"
                yield node, Violation(variable, message, "write it once, for all nodes")


MANAGER_RULES = (
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
