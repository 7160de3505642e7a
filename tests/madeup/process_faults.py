"""Faults of processes and their settings: what dies, hangs, corrupts, is late, or lies."""

from collections.abc import Sequence

from tests.madeup.condition import Condition, RankFault
from tests.madeup.faults import (
    Breaks,
    Chance,
    Truth,
    any_gpu,
    any_node,
    any_port,
    fault,
    of_node,
    of_rank,
)

# Name, what it changes, where it was seen, the fault of a rank, and the levels at which it is right
# to name it, the sharpest first.
OF_RANKS = (
    ("node-dies", "a node stops while ranks run", "Llama 3 report, table 5", "node-dies", "node"),
    ("dead-rank", "a rank is killed", "the kernel's OOM killer: SIGKILL", "dies", "rank", "node"),
    ("absent-rank", "a rank does not join", "a GPU that CUDA cannot open", "absent",
     "rank", "node"),
    ("hung-rank", "a rank is stuck in the kernel", "state D: a driver's wait", "stuck", "rank"),
    ("hung-kernel", "a GPU never ends its part of a collective; its process waits as all do",
     "C4 (HPCA 25): communication hangs", "gpu-stuck", "node", "rank"),
    ("corrupting", "a rank sends wrong values", "silent corruption: Llama 3", "sends-wrong",
     "rank"),
    ("corrupting-timed", "a rank sends wrong values only under load", "Llama 3, table 5",
     "sends-wrong-timed", "rank"),
    ("adding-wrong", "a rank alone gets wrong sums", "a GPU's memory", "adds-wrong", "rank"),
)  # fmt: skip


def _of_a_rank(what: str, levels: Sequence[str]) -> Breaks:
    def breaks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
        node, gpu = any_gpu(condition, chance)
        condition.ranks[node, gpu] = RankFault(what, chance.randrange(3))
        return tuple(Truth(level, (node,)) for level in levels)

    return breaks


for _name, _changes, _source, _what, *_levels in OF_RANKS:
    _register = fault(_name, _changes, _source, _levels[0], held_out=_name == "adding-wrong")
    _register(_of_a_rank(_what, _levels))


@fault("slow-process", "a process starts each collective 3 to 20 ms late", "CPU limits", "rank")
def slow_process(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.late_us[node, gpu] = chance.uniform(3e3, 20e3)
    return (*of_rank(node), *of_node(node))


@fault(
    "slow-cpu",
    "a node's CPU takes 300 µs to hand a buffer to a NIC",
    "some 10 µs for each step: nccl#2409; frequency governors",
    "node",
    held_out=True,
)
def slow_cpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.hop_us[node] = 300.0
    return of_node(node)


@fault("version-mismatch", "a node has another NCCL", "NCCL's own check at init", "node")
def version_mismatch(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.versions[node] = {"nccl": "2.27.3"}
    return of_node(node)


@fault("override-algo", "NCCL_ALGO on one node: ranks disagree", "NCCL documentation", "node")
def override_algo(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_ALGO": "Ring"}
    return of_node(node)


@fault("override-hca", "NCCL_IB_HCA has half of the rails on one node", "nccl-tests#380", "node")
def override_hca(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    many = condition.shape.rails // 2 or 1
    names = ",".join(f"mlx5_{rail}" for rail in range(many))
    condition.environment[node] = {"NCCL_IB_HCA": names}
    return (
        *of_node(node),
        *(Truth("rail", (node,), r) for r in range(many, condition.shape.rails)),
    )


@fault(
    "override-p2p",
    "NCCL_P2P_DISABLE=1 on one node: GPUs talk by memory",
    "nccl-tests#178: 20 GB/s",
    "node",
)
def override_p2p(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_P2P_DISABLE": "1"}
    condition.gpu_gb_s[node] = 20.0
    return of_node(node)


@fault("socket-fallback", "a node finds no verbs library, and takes sockets", "nccl#465", "node")
def socket_fallback(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.environment[node] = {"NCCL_IB_DISABLE": "1"}
    return of_node(node)


@fault(
    "liar-healthy", "a node with half a slot reports good times and counters", "strangers", "node"
)
def liar_healthy(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.slot_gb_s[node, rail] /= 2
    condition.liars[node] = "healthy"
    return (*of_node(node), Truth("rail", (node,), rail))


@fault(
    "liar-blames",
    "a node of a healthy fleet says that another one sends wrong values",
    "strangers",
    "node",
)
def liar_blames(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.liars[node] = "blames"
    return of_node(node)
