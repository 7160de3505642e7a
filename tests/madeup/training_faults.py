"""Faults that only a training step shows, kept apart from those of the whole gate."""

from functools import partial

from tests.madeup.condition import Condition
from tests.madeup.faults import (
    Chance,
    FaultKind,
    Truth,
    any_gpu,
    any_node,
    fault,
    kinds,
    of_gpu,
    of_node,
    of_rank,
)

TRAINING_FAULTS: dict[str, FaultKind] = {}
# Of the registry: kinds that slow a step or its communication, and that do not end ranks.
TOUCHING = (
    "slow-gpu", "throttled-power", "nvlink-down", "half-slot", "acs", "wrong-numa", "no-gdr",
    "slow-rail", "lossy-rail", "two-slots", "ordered-writes", "slow-process", "slow-cpu",
    "override-hca", "leaf-uplinks", "leaf-lossy", "spine-uneven", "bad-path", "half-spines",
)  # fmt: skip
_fault = partial(fault, registry=TRAINING_FAULTS)


def training_kinds() -> list[FaultKind]:
    """Return the kinds that touch training, held out or not."""
    known = {kind.name: kind for kind in kinds(held_out=True)}
    return [*(known[name] for name in TOUCHING), *TRAINING_FAULTS.values()]


@_fault(
    "hot-gpu",
    "one GPU computes at 60 to 85 %; its links are good",
    "thermal slowdown under load: Sinha and others, SC 22; Minder",
    "rank",
)
def hot_gpu(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.gemm_share[node, gpu] *= chance.uniform(0.6, 0.85)
    return tuple(reversed(of_gpu(node)))


@_fault(
    "slow-launch",
    "a process launches each kernel of a block 15 to 40 ms late; its GPU is good",
    "CPU limits, a noisy neighbour: Llama 3 report, 3.3.4, stragglers",
    "rank",
)
def slow_launch(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node, gpu = any_gpu(condition, chance)
    condition.launch_us[node, gpu] = chance.uniform(15e3, 40e3)
    return (*of_rank(node), *of_node(node))


@_fault(
    "slow-data",
    "the batches of a node take 60 to 300 ms",
    "data stalls: Mohan and others, VLDB 21",
    "node",
)
def slow_data(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    node = any_node(condition, chance)
    condition.data_us[node] = chance.uniform(60e3, 300e3)
    return of_node(node)
