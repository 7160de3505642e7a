"""Variable names that exist, and groups that do not contradict each other."""

import difflib
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rdmaprov.contract.rule import FleetRule, Rule, SiteRule, Violation
from rdmaprov.inventory import schema
from rdmaprov.inventory.model import Fleet, Node
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
# Ansible's variables that say how a host is reached, and their older names.
_ANSIBLE = (
    "ansible_host", "ansible_port", "ansible_user", "ansible_password", "ansible_connection",
    "ansible_become", "ansible_become_user", "ansible_become_pass", "ansible_become_password",
    "ansible_become_method", "ansible_become_exe", "ansible_become_flags", "ansible_timeout",
    "ansible_python_interpreter", "ansible_ssh_host", "ansible_ssh_port", "ansible_ssh_user",
    "ansible_ssh_pass", "ansible_ssh_password", "ansible_ssh_private_key_file",
    "ansible_private_key_file", "ansible_ssh_args", "ansible_ssh_common_args",
    "ansible_ssh_extra_args", "ansible_ssh_executable", "ansible_ssh_timeout",
)  # fmt: skip


def notes(node: Node) -> Iterator[str]:
    """Yield the variables that have nearly the name of one that says how a node is reached."""
    for name in sorted(node.written.difference(_ANSIBLE)):
        if name.startswith("ansib") and (near := _misspelt(name, _ANSIBLE)):
            yield f"{name}: not a variable of Ansible that is known here; did you mean {near}?"


@lru_cache(maxsize=4096)  # nodes share their names
def _misspelt(name: str, known: Sequence[str]) -> str:
    """Return the known name that a name is with a slip of the pen, empty if it is no such name.

    Another number, another word or another first letter is a name of its own.
    """
    for near in difflib.get_close_matches(name, known, n=3, cutoff=0.85):
        one, other = ([*filter(str.isdigit, text)] for text in (name, near))
        is_split = name.count("_") == near.count("_")
        joined = name.replace("_", "") == near.replace("_", "")
        if one == other and name[0] == near[0] and (is_split or joined):
            return near
    return ""


def _near_names(fleet: Fleet) -> Iterator[tuple[Node, Violation]]:
    known = schema.load_shipped()
    names, parts = tuple(known.variables), tuple(f"{part}_" for part in known.parts)
    for node in fleet.nodes:
        for name in sorted(node.written.difference(known.variables, OLD_NAMES)):
            near = "" if name.startswith(parts) else _misspelt(name, names)
            if near and not fleet.variables(node.name).mentions(name):
                message = "no role has a variable of this name, and no template uses it"
                yield node, Violation(name, message, f"did you mean {near}?")


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


RULES: tuple[Rule | FleetRule | SiteRule, ...] = (
    Rule("names.removed", "Variables have their names in rdmaprov, not those in other tools.",
         _SPECS, _old_names),
    Rule("names.unknown", "A variable that begins with a role's name is one of that role.",
         _SPECS, _unknown_names),
    SiteRule("names.near", "A variable that no template uses has not nearly the name of one of "
             "rdmaprov.", _SPECS, _near_names),
    Rule("names.internal", "A site does not set a role's internal variables.",
         "docs/variables.md", _internal_names),
    FleetRule("groups.conflict", "Groups of the same host and depth do not contradict each other.",
              "Ansible documentation: how variables are merged", _conflicts),
)  # fmt: skip
