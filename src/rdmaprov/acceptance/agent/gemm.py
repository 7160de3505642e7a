"""How fast this device multiplies matrices, alone: what its training steps are compared with."""

from __future__ import annotations

import statistics
import time
from typing import Any

from .group import RankGroup

# A limit of a cgroup takes effect in periods of 100 ms (kernel, sched-bwc.rst), so a sample must
# span several. The first one warms up clocks and libraries.
SAMPLE_S, SAMPLES = 0.3, 5


def measure_gemm(group: RankGroup) -> None:
    """Report the time of one multiplication in the shape of the model's widest layer.

    All ranks measure at the same time, as they compute in a step: a node that has too little power
    or cooling for all of its devices shows that.
    """
    sizes = group.task["work"]
    kind = {"dtype": getattr(group.torch, sizes["dtype"]), "device": group.device}
    rows, inner = sizes["batch"] * sizes["sequence"], sizes["hidden"]
    given = group.torch.randn(rows, inner, **kind)
    weight = group.torch.randn(inner, 4 * inner, **kind)
    repeat = 1
    while (took := _seconds(group, given, weight, repeat)) < SAMPLE_S / 2:
        repeat = max(2 * repeat, int(repeat * SAMPLE_S / max(took, SAMPLE_S / 100)))
    group.agree(lambda: "")
    begin = time.process_time()
    samples = [1e6 * _seconds(group, given, weight, repeat) / repeat for _ in range(SAMPLES)]
    busy = time.process_time() - begin
    group.say(
        "gemm",
        flops=2 * rows * inner * 4 * inner,
        count=repeat * SAMPLES,
        median_us=statistics.median(samples),
        best_us=min(samples),
        cpu_us=max(1e6 * busy / (repeat * SAMPLES), 1e-3),
    )


def _seconds(group: RankGroup, given: Any, weight: Any, repeat: int) -> float:
    """Return the seconds of some multiplications, done."""
    group.watch.begin_step()
    begin = time.perf_counter()
    for _ in range(repeat):
        group.torch.matmul(given, weight)
    if group.process.on_gpu:
        group.torch.cuda.synchronize()
    return time.perf_counter() - begin
