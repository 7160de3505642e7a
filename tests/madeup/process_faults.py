"""Faults of processes and their settings: what dies, hangs, corrupts, is late, or lies."""

from collections.abc import Iterable, Sequence

from tests.madeup.condition import Condition, RankFault
from tests.madeup.faults import (
    Breaks,
    Chance,
    Truth,
    any_gpu,
    any_port,
    fault,
    of_any_node,
    of_node,
    of_rank,
    register,
)

# Name, the fault of a rank, and the levels at which it is right to name it, the sharpest first.
OF_RANKS = (
    ("node-dies", "node-dies", "node"),
    ("dead-rank", "dies", "rank", "node"),
    ("absent-rank", "absent", "rank", "node"),
    ("hung-rank", "stuck", "rank"),
    ("hung-kernel", "gpu-stuck", "node", "rank"),
    ("corrupting", "sends-wrong", "rank"),
    ("corrupting-timed", "sends-wrong-timed", "rank"),
    ("adding-wrong", "adds-wrong", "rank"),
)


def _of_a_rank(what: str, levels: Sequence[str]) -> Breaks:
    def breaks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
        node, gpu = any_gpu(condition, chance)
        condition.ranks[node, gpu] = RankFault(what, chance.randrange(3))
        return tuple(Truth(level, (node,)) for level in levels)

    return breaks


for _name, _what, *_levels in OF_RANKS:
    register(_name, _of_a_rank(_what, _levels))


@fault
def slow_process(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.late_us[node, gpu] = chance.uniform(3e3, 20e3)
    return (*of_rank(node), *of_node(node))


@of_any_node
def slow_cpu(condition: Condition, _chance: Chance, node: int) -> None:
    condition.hop_us[node] = 300.0


@of_any_node
def version_mismatch(condition: Condition, _chance: Chance, node: int) -> None:
    condition.versions[node] = {"nccl": "2.27.3"}


@of_any_node
def override_algo(condition: Condition, _chance: Chance, node: int) -> None:
    condition.environment[node] = {"NCCL_ALGO": "Ring"}


@of_any_node
def override_hca(condition: Condition, _chance: Chance, node: int) -> Iterable[int]:
    many = condition.shape.rails // 2 or 1
    condition.environment[node] = {"NCCL_IB_HCA": ",".join(f"mlx5_{rail}" for rail in range(many))}
    return range(many, condition.shape.rails)


@of_any_node
def override_p2p(condition: Condition, _chance: Chance, node: int) -> None:
    condition.environment[node] = {"NCCL_P2P_DISABLE": "1"}
    condition.gpu_gb_s[node] = 20.0


@of_any_node
def socket_fallback(condition: Condition, _chance: Chance, node: int) -> None:
    condition.environment[node] = {"NCCL_IB_DISABLE": "1"}


@fault
def liar_healthy(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, rail = any_port(condition, chance)
    condition.slot_gb_s[node, rail] /= 2
    condition.liars[node] = "healthy"
    return (*of_node(node), Truth("rail", (node,), rail))


@of_any_node
def liar_blames(condition: Condition, _chance: Chance, node: int) -> None:
    condition.liars[node] = "blames"
