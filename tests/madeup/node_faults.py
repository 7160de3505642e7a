"""Faults within one node: GPUs, NVLink, PCIe, memory, ports and their settings."""

from copy import deepcopy

from tests.madeup.condition import Condition
from tests.madeup.faults import (
    Chance,
    Truth,
    any_gpu,
    any_node,
    any_port,
    fault,
    of_gpu,
    of_node,
    of_rail,
)

_PCIE_GPU_GB_S = 25.0  # GPU to GPU without NVLink, over PCIe 5.0 and the CPU: nccl-tests#178 has 20


@fault("dead-node", "a node does not answer", "Llama 3 report, table 5: host failures", "node")
def dead_node(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.unreachable.add(node)
    return of_node(node)


@fault(
    "slow-gpu",
    "one GPU moves 30 % of the bytes",
    "one of 16 throttled GPUs sets the pace: jingchaozhang.github.io",
    "node",
    same_as="nvlink-down, throttled-power",
)
def slow_gpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.gpu_gb_s[node, gpu] *= 0.3
    condition.gemm_share[node, gpu] = 0.5  # the same clocks feed its copies and its arithmetic
    return of_gpu(node)


@fault("lost-gpu", "a GPU fell off the bus", "Xid 79, NVIDIA Xid catalog", "node")
def lost_gpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.has_gpu[node, gpu] = False
    return of_node(node)


@fault(
    "nvlink-down",
    "a GPU reaches the others by PCIe",
    "Minder, table of fault types: NVLink errors",
    "node",
    same_as="slow-gpu, throttled-power",
)
def nvlink_down(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.gpu_gb_s[node, gpu] = _PCIE_GPU_GB_S
    return of_gpu(node)


@fault(
    "throttled-power",
    "all GPUs of a node move half of the bytes",
    "power brake and thermal slowdown: nvidia-smi -q, clocks_event_reasons",
    "node",
    same_as="slow-gpu, nvlink-down",
)
def throttled_power(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.gpu_gb_s[node] *= 0.5
    condition.gemm_share[node] = 0.5
    return of_node(node)


@fault("half-slot", "a NIC's slot has half its lanes", "Hostping (NSDI 23)", "rail")
def half_slot(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.slot_gb_s[node, rail] /= 2
    return of_rail(node, rail)


@fault("acs", "data to NICs goes by the root complex", "0.39 of the line: nccl-tests#112", "node")
def acs(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    _send_through_host(condition, node, range(condition.shape.rails), 0.39)
    return of_node(node)


@fault(
    "wrong-numa",
    "half of the NICs are behind the other CPU",
    "half of the line: nccl-tests#347",
    "node",
)
def wrong_numa(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    many = condition.shape.rails // 2 or 1
    first = chance.choice([0, many]) if condition.shape.rails > 1 else 0
    _send_through_host(condition, node, range(first, first + many), 0.5)
    return (*of_node(node), *(Truth("rail", (node,), r) for r in range(first, first + many)))


@fault("no-gdr", "no GPUDirect RDMA on a node", "0.30 of the line: nccl-tests#152", "node")
def no_gdr(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.no_gdr.add(node)
    _send_through_host(condition, node, range(condition.shape.rails), 0.3)
    return of_node(node)


def _send_through_host(condition: Condition, node: int, rails: range, share: float) -> None:
    condition.via_host[node, list(rails)] = True
    condition.host_gb_s[node] = share * len(rails) * condition.shape.line_gb_s


@fault("rail-down", "a port has no link", "the commonest failure: Llama 3, Minder", "rail")
def rail_down(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.link_up[node, rail] = False
    return of_rail(node, rail)


@fault(
    "rail-dies",
    "a port loses its link while it is used",
    "a completion with status 12: nccl#1705 and many others",
    "rail",
)
def rail_dies(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.dying_links[node, rail] = chance.randrange(3)
    return of_rail(node, rail)


@fault("slow-rail", "a port has a half or a quarter of its rate", "lanes of an optic", "rail")
def slow_rail(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.line_gb_s[node, rail] *= chance.choice([0.5, 0.25])
    return of_rail(node, rail)


@fault("lossy-rail", "a port loses 1e-4 to 1e-2 of the packets", "Joshi et al., SIGCOMM 23", "rail")
def lossy_rail(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.loss[node, rail] = 10 ** chance.uniform(-4, -2)
    condition.bit_errors[node, rail] = condition.loss[node, rail] / (4096 * 8)
    return of_rail(node, rail)


@fault("flapping-rail", "a link goes down now and then", "C4 (HPCA 25): link flaps", "rail")
def flapping_rail(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.flaps_per_s[node, rail] = chance.uniform(0.02, 0.2)
    return of_rail(node, rail)


@fault(
    "bad-optic",
    "a link has 1e-11 wrong bits after correction, and loses what they hit",
    "IEEE 802.3ck allows 1e-12",
    "rail",
    held_out=True,
)
def bad_optic(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.bit_errors[node, rail] = 1e-11
    condition.loss[node, rail] = 1e-11 * 4096 * 8
    return of_rail(node, rail)


@fault("wrong-priority", "a node's RDMA data has priority 0", "roce_qos_pfc_priorities", "node")
def wrong_priority(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.priority[node] = 0
    return (*of_node(node), *(Truth("rail", (node,), r) for r in range(condition.shape.rails)))


@fault(
    "intermittent",
    "a slot has half its lanes in a third of the time",
    "Minder: faults come and go",
    "rail",
)
def intermittent(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    condition.sound = deepcopy(condition)
    condition.duty = 0.35
    return half_slot(condition, chance)


@fault(
    "two-slots",
    "a NIC of each of two nodes has half its lanes",
    "Hostping: several at once",
    "rail",
    held_out=True,
)
def two_slots(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    found: list[Truth] = []
    for node in chance.sample(range(condition.shape.nodes), 2):
        rail = chance.randrange(condition.shape.rails)
        condition.slot_gb_s[node, rail] /= 2
        found += of_rail(node, rail)
    return tuple(found)


@fault(
    "ordered-writes",
    "a node's NICs write without relaxed ordering: half of what their slots carry",
    "NVIDIA, Understanding PCIe configuration: relaxed ordering on AMD hosts",
    "node",
    held_out=True,
)
def ordered_writes(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.write_share[node] = 0.5
    return (*of_node(node), *(Truth("rail", (node,), r) for r in range(condition.shape.rails)))


@fault(
    "other-job", "another job uses the GPUs of a node", "a scheduler's epilog that failed", "node"
)
def other_job(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.foreign_process[node] = True
    return of_node(node)


@fault(
    "other-traffic",
    "another job takes half of a port, without a GPU",
    "storage and checkpoints on compute rails",
    "rail",
    held_out=True,
)
def other_traffic(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.foreign_gb_s[node, rail] = condition.shape.line_gb_s / 2
    return of_rail(node, rail)
