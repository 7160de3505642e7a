"""A training step on a made-up fleet: computation by device, buckets one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.madeup.collectives import Cost
from tests.madeup.condition import Condition, Floats
from tests.madeup.flows import Team

# bfloat16 of an H100, matrices that fill it: MAMF finder, 792.1 of 989 TFLOP/s
# (github.com/stas00/ml-engineering, compute/accelerator).
GEMM_TFLOPS = 790.0
# Of that, what a step makes: torchtitan's 8B on 8 H100 at 500 W reaches 33 to 39 % of 989 TFLOP/s
# with selective recomputation, llm-foundry's 7B 46 %: 0.46 · 989 / 790.
STEP_SHARE = 0.57
# Ranks of a step end with its collectives; by themselves GPUs of one kind differ by 1 to 2 %
# ("Not all GPUs are created equal", Sinha and others, SC 22, has 8 % between the extremes).
DEVICE_SPREAD = 0.01
DATA_US = 400.0  # 2 × 4,096 random tokens by a CPU, and 64 KiB to the GPU; our choice
# Kernels of NCCL take multiprocessors from the computation: 20 of 132, and not all of the time.
CONTENTION = 0.03
OPTIMIZER_SHARE, FORWARD = 0.03, 1 / 3
_LATE_LAUNCHES = 2  # a process that is late is so in each block, forward and backward


@dataclass(frozen=True)
class MadeUpStep:
    """A step of one group, microseconds.

    Args:
        together: of all ranks.
        alone: of each rank, without communication.
        data: of each rank.
    """

    together: float
    alone: Floats
    data: Floats


def gemm_tflops(condition: Condition, nodes: Sequence[int], gpus: Sequence[int]) -> Floats:
    """Return what each device of some nodes multiplies, without noise."""
    return GEMM_TFLOPS * condition.gemm_share[np.ix_(nodes, gpus)].ravel()


def step_of(
    condition: Condition, team: Team, work: Mapping[str, Any], cost: Cost, flops: float
) -> MadeUpStep:
    """Return the step of a group, without noise.

    Args:
        condition: of the fleet.
        team: that trains.
        work: as Task.work.
        cost: of the team's all-reduce.
        flops: of a device's step.
    """
    compute, data = _alone(condition, team, work, flops)
    alone = compute + data
    slowest = float(compute.max())
    begin = float(data.max())
    if team.ranks == 1:
        return MadeUpStep(float(alone.max()), alone, data)
    late = float(condition.late_us[np.ix_(team.nodes, team.gpus)].max())
    wait = _ddp_end if work["strategy"] == "ddp" else _fsdp_end
    whole = begin + wait(work, cost, slowest, late)
    return MadeUpStep(max(whole, float(alone.max())), alone, data)


def _alone(
    condition: Condition, team: Team, work: Mapping[str, Any], flops: float
) -> tuple[Floats, Floats]:
    """Return each rank's computation and data, microseconds.

    A GPU is fed in advance: a process that launches late shows only where launching takes longer
    than computing.
    """
    where = np.ix_(team.nodes, team.gpus)
    rates = gemm_tflops(condition, team.nodes, team.gpus) * STEP_SHARE
    launches = _LATE_LAUNCHES * work["layers"] + 1
    behind = condition.late_us[where].ravel() + condition.launch_us[where].ravel()
    compute = np.maximum(flops / rates / 1e6, launches * behind)
    return compute, DATA_US + condition.data_us[where].ravel()


def _ddp_end(work: Mapping[str, Any], cost: Cost, compute: float, late: float) -> float:
    """Return when the last bucket is reduced and the optimizer is done, from when data are there.

    Buckets become ready at equal distances in the backward pass, and are reduced in order.
    """
    count = max(1, -(-gradient_bytes(work) // work["bucket_bytes"]))
    once = cost.us(min(work["bucket_bytes"], gradient_bytes(work)))
    backward = compute * (1 - FORWARD - OPTIMIZER_SHARE)
    busy = min(1.0, count * once / backward)
    backward *= 1 + CONTENTION * busy
    end = 0.0
    for number in range(count):
        end = max(compute * FORWARD + backward * (number + 1) / count, end) + once
    # A late process begins each collective late: that is in the cost once for each of them.
    del late
    return end + compute * OPTIMIZER_SHARE


def _fsdp_end(work: Mapping[str, Any], cost: Cost, compute: float, late: float) -> float:
    """Return when the step is done: blocks are gathered one ahead, their gradients scattered."""
    del late
    width = 2 if work["dtype"] == "bfloat16" else 4
    block = 12 * work["hidden"] ** 2 * width
    ends = 2 * work["vocabulary"] * work["hidden"] * width
    half, first = cost.us(block) / 2, cost.us(ends) / 2
    layers = work["layers"]
    forward = compute * FORWARD / layers
    backward = compute * (1 - FORWARD - OPTIMIZER_SHARE) / layers
    slower = 1 + CONTENTION * min(1.0, 2 * half / backward)
    # Each block waits for its weights, which are gathered while the block before it computes.
    time = first + half
    time += layers * max(forward * slower, half)
    time += layers * max(backward * slower, 2 * half) + half + first
    return float(time + compute * OPTIMIZER_SHARE)


def gradient_bytes(work: Mapping[str, Any]) -> int:
    width = 2 if work["dtype"] == "bfloat16" else 4
    hidden, vocabulary = work["hidden"], work["vocabulary"]
    block = 12 * hidden**2 + 2 * hidden
    return int(width * (work["layers"] * block + hidden * (2 * vocabulary + 1)))


def flops_of(work: Mapping[str, Any]) -> float:
    """Return the operations of a device's step: as PaLM's appendix B, causal attention halved."""
    hidden, layers, length = work["hidden"], work["layers"], work["sequence"]
    weights = 12 * layers * hidden**2 + work["vocabulary"] * hidden
    return float(work["batch"] * length * (6 * weights + 6 * layers * hidden * length))
