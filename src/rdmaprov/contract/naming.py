"""Variable names that exist, and groups that do not contradict each other."""

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import FleetRule, Rule, Violation
from rdmaprov.inventory import schema
from rdmaprov.inventory.model import Node
from rdmaprov.inventory.type_messages import nearest_name

_SPECS = "roles/*/meta/argument_specs.yml"
# Names that guides and other tools use → the variable of rdmaprov.
OLD_NAMES = {
    "fabric_mtu": "fabric_mtu_bytes",
    "fabric_type": "fabric_kind",
    "fabric_link_speed": "fabric_link_gbps",
    "fabric_dscp": "fabric_roce_dscp",
    "fabric_pfc_priority": "fabric_lossless_priority",
    "mtu_bytes": "fabric_mtu_bytes",
    "ofed_flavour": "ofed_source",
    "roce_qos_pfc_priority": "fabric_lossless_priority",
    "roce_qos_dscp": "fabric_roce_dscp",
    "nccl_conf": "nccl_environment",
    "hugepages_count": "hugepages_2m_count",
    "limits_ulimit": "limits_memlock",
}


def _old_names(node: Node) -> Iterator[Violation]:
    for name in sorted(node.written & OLD_NAMES.keys()):
        yield Violation(name, "rdmaprov has no variable of this name", f"write {OLD_NAMES[name]}")


def _unknown_names(node: Node) -> Iterator[Violation]:
    known = schema.load_shipped()
    for name in sorted(node.written.difference(known.variables, OLD_NAMES)):
        part = next((part for part in known.parts if name.startswith(f"{part}_")), None)
        if part is None:
            continue
        variables = known.parts[part].variables
        owner = f"the role {part}" if part in known.roles else "rdmaprov"
        message = f"{owner} has no variable of this name"
        yield Violation(name, message, f"did you mean {nearest_name(name, variables)}?")


def _internal_names(node: Node) -> Iterator[Violation]:
    for name in sorted(node.written):
        if name.startswith("__") and name[2:].startswith(tuple(schema.load_shipped().roles)):
            yield Violation(name, "is internal to a role", "remove the line")


def _conflicts(nodes: Sequence[Node]) -> Iterator[tuple[Node, Violation]]:
    for node in nodes:
        for name, one, other in node.conflicts:
            message = f"groups {one} and {other} set it to different values"
            remedy = "remove it from one of them, or set ansible_group_priority in one"
            yield node, Violation(name, message, remedy)


RULES: tuple[Rule | FleetRule, ...] = (
    Rule("names.removed", "Variables have their names in rdmaprov, not those in other tools.",
         _SPECS, _old_names),
    Rule("names.unknown", "A variable that begins with a role's name is one of that role.",
         _SPECS, _unknown_names),
    Rule("names.internal", "A site does not set a role's internal variables.",
         "docs/variables.md", _internal_names),
    FleetRule("groups.conflict", "Groups of the same host and depth do not contradict each other.",
              "Ansible documentation: how variables are merged", _conflicts),
)  # fmt: skip
