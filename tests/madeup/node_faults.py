"""Faults within one node: GPUs, NVLink, PCIe, memory, ports and their settings."""

from collections.abc import Iterable
from copy import deepcopy

from tests.madeup.condition import Condition
from tests.madeup.faults import (
    Chance,
    Port,
    Truth,
    any_gpu,
    fault,
    of_any_node,
    of_any_port,
    of_gpu,
    of_node,
    of_rail,
)

_PCIE_GPU_GB_S = 25.0  # GPU to GPU without NVLink, over PCIe 5.0 and the CPU: nccl-tests#178 has 20


@of_any_node
def dead_node(condition: Condition, _chance: Chance, node: int) -> None:
    condition.unreachable.add(node)


@fault
def slow_gpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.gpu_gb_s[node, gpu] *= 0.3
    condition.gemm_share[node, gpu] = 0.5  # the same clocks feed its copies and its arithmetic
    return of_gpu(node)


@fault
def lost_gpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.has_gpu[node, gpu] = False
    return of_node(node)


@fault
def nvlink_down(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.gpu_gb_s[node, gpu] = _PCIE_GPU_GB_S
    return of_gpu(node)


@of_any_node
def throttled_power(condition: Condition, _chance: Chance, node: int) -> None:
    condition.gpu_gb_s[node] *= 0.5
    condition.gemm_share[node] = 0.5


@of_any_port
def half_slot(condition: Condition, _chance: Chance, port: Port) -> None:
    condition.slot_gb_s[port] /= 2


@of_any_node
def acs(condition: Condition, _chance: Chance, node: int) -> None:
    _send_through_host(condition, node, range(condition.shape.rails), 0.39)


@of_any_node
def wrong_numa(condition: Condition, chance: Chance, node: int) -> Iterable[int]:
    many = condition.shape.rails // 2 or 1
    first = chance.choice([0, many]) if condition.shape.rails > 1 else 0
    _send_through_host(condition, node, range(first, first + many), 0.5)
    return range(first, first + many)


@of_any_node
def no_gdr(condition: Condition, _chance: Chance, node: int) -> None:
    condition.no_gdr.add(node)
    _send_through_host(condition, node, range(condition.shape.rails), 0.3)


def _send_through_host(condition: Condition, node: int, rails: range, share: float) -> None:
    condition.via_host[node, list(rails)] = True
    condition.host_gb_s[node] = share * len(rails) * condition.shape.line_gb_s


@of_any_port
def rail_down(condition: Condition, _chance: Chance, port: Port) -> None:
    condition.link_up[port] = False


@of_any_port
def rail_dies(condition: Condition, chance: Chance, port: Port) -> None:
    condition.dying_links[port] = chance.randrange(3)


@of_any_port
def slow_rail(condition: Condition, chance: Chance, port: Port) -> None:
    condition.line_gb_s[port] *= chance.choice([0.5, 0.25])


@of_any_port
def lossy_rail(condition: Condition, chance: Chance, port: Port) -> None:
    condition.loss[port] = 10 ** chance.uniform(-4, -2)
    condition.bit_errors[port] = condition.loss[port] / (4096 * 8)


@of_any_port
def flapping_rail(condition: Condition, chance: Chance, port: Port) -> None:
    condition.flaps_per_s[port] = chance.uniform(0.02, 0.2)


@of_any_port
def bad_optic(condition: Condition, _chance: Chance, port: Port) -> None:
    condition.bit_errors[port] = 1e-11
    condition.loss[port] = 1e-11 * 4096 * 8


@of_any_node
def wrong_priority(condition: Condition, _chance: Chance, node: int) -> Iterable[int]:
    condition.priority[node] = 0
    return range(condition.shape.rails)


@fault
def intermittent(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    condition.sound = deepcopy(condition)
    condition.duty = 0.35
    return half_slot(condition, chance)


@fault
def two_slots(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    found: list[Truth] = []
    for node in chance.sample(range(condition.shape.nodes), 2):
        rail = chance.randrange(condition.shape.rails)
        condition.slot_gb_s[node, rail] /= 2
        found += of_rail(node, rail)
    return tuple(found)


@of_any_node
def ordered_writes(condition: Condition, _chance: Chance, node: int) -> Iterable[int]:
    condition.write_share[node] = 0.5
    return range(condition.shape.rails)


@of_any_node
def other_job(condition: Condition, _chance: Chance, node: int) -> None:
    condition.foreign_process[node] = True


@of_any_port
def other_traffic(condition: Condition, _chance: Chance, port: Port) -> None:
    condition.foreign_gb_s[port] = condition.shape.line_gb_s / 2
