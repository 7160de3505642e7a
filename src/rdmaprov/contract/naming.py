"""Variables that exist, and groups that do not contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rdmaprov.contract.rule import Finding, FleetRule, Rule
from rdmaprov.inventory import schema
from rdmaprov.inventory.coerce import did_you_mean
from rdmaprov.inventory.model import Node

_SPECS = "roles/*/meta/argument_specs.yml"
# Names that guides and other tools use for what a variable says here.
REMOVED = {
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


def _removed(node: Node) -> Iterator[Finding]:
    for name in sorted(node.written & REMOVED.keys()):
        yield Finding(name, "is not a variable of rdmaprov", f"write {REMOVED[name]}")


def _unknown(node: Node) -> Iterator[Finding]:
    known = schema.shipped()
    for name in sorted(node.written - known.variables.keys() - REMOVED.keys()):
        role = next((role for role in known.roles if name.startswith(f"{role}_")), None)
        if role is None:
            continue
        variables = known.roles[role].variables
        message = f"the role {role} has no such variable"
        yield Finding(name, message, f"did you mean {did_you_mean(name, variables)}")


def _internal(node: Node) -> Iterator[Finding]:
    for name in sorted(node.written):
        if name.startswith("__") and name[2:].startswith(tuple(schema.shipped().roles)):
            yield Finding(name, "is a role's own", "remove it")


def _conflicts(nodes: Sequence[Node]) -> Iterator[tuple[Node, Finding]]:
    for node in nodes:
        for name, one, other in node.conflicts:
            message = f"groups {one} and {other} both set it, to different values"
            remedy = "write it in one of them, or give one ansible_group_priority"
            yield node, Finding(name, message, remedy)


RULES: tuple[Rule | FleetRule, ...] = (
    Rule("names.removed", "Variables have the names that rdmaprov gives them.", _SPECS, _removed),
    Rule("names.unknown", "A variable with a role's prefix is one of the role's.",
         _SPECS, _unknown),
    Rule("names.internal", "A role's internal variables are not set from outside.",
         "docs/variables.md", _internal),
    FleetRule("groups.conflict", "Groups of one host and depth do not contradict each other.",
              "Ansible documentation: how variables are merged", _conflicts),
)  # fmt: skip
