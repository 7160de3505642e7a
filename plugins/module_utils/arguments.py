"""The roles' modules, and the types of their arguments as Ansible converts them.

Imported where Ansible's own library is: in a module of Ansible's, and on the controller.
"""

from __future__ import annotations

from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from .argument_specs import ARGUMENTS
from .machine import Machine, NodeError
from .plan import Plan
from .roles import (
    fabric,
    hugepages,
    limits,
    mlx5,
    mtu,
    nccl,
    ofed,
    pcie,
    peermem,
    roce_qos,
    subnet_manager,
    torch_runtime,
)

# Named one by one: so Ansible sees what to bring to a node.
ROLES: dict[str, Any] = {
    "ofed": ofed,
    "fabric": fabric,
    "mlx5": mlx5,
    "subnet_manager": subnet_manager,
    "hugepages": hugepages,
    "peermem": peermem,
    "mtu": mtu,
    "roce_qos": roce_qos,
    "limits": limits,
    "pcie": pcie,
    "nccl": nccl,
    "torch_runtime": torch_runtime,
}


def plan_role(name: str, machine: Machine, given: dict[str, Any]) -> Plan:
    """Return a role's plan for arguments as its task gives them.

    Raises:
        NodeError: as planning does, and if an argument has another type than it must.
    """
    plan: Plan = ROLES[name].plan(machine, convert_arguments(name, given))
    return plan


def convert_arguments(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a role's module in their types, with their defaults.

    Raises:
        NodeError: one has no value, or another type than it must.
    """
    validated = ArgumentSpecValidator(ARGUMENTS[name]).validate(given)
    if validated.error_messages:
        raise NodeError("; ".join(validated.error_messages))
    found: dict[str, Any] = validated.validated_parameters
    return found
