"""Training steps with real ranks: both strategies, alone and together, on whatever is here."""

import subprocess
from pathlib import Path

import pytest
from tests.gpu.machine import missing_gpu
from tests.gpu.ranks import PLANE, python_with_torch

import rdmaprov
from rdmaprov.acceptance.at_fault import run as blame
from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.training.plan import CPU_MODEL, GPU_MODELS, STRATEGIES

_COUNT = """
import sys
sys.path.insert(0, sys.argv[1])
from rdmaprov.acceptance.agent.transformer import Transformer
sizes = {"hidden": 256, "layers": 3, "heads": 4, "vocabulary": 100, "dtype": "float32"}
print(sum(each.numel() for each in Transformer(sizes, "cpu").parameters()))
"""
_REPEAT = (3, 5, 0.5)


def test_ranks_train_alone_and_together(ranks):
    work = (CPU_MODEL if ranks.backend == "gloo" else GPU_MODELS[-1]).as_work
    tasks = [Task(0, "training", PLANE, ((0, 1),), "gemm", work=work(""))]
    for groups in (((0,), (1,)), ((0, 1),)):
        tasks += [
            Task(len(tasks) + at, "training", PLANE, groups, "train", repeat=_REPEAT, work=work(s))
            for at, s in enumerate(STRATEGIES)
        ]
    ran, _ = ranks.run(2, *tasks)
    assert blame.findings(ran) == []
    assert {event["rank"] for event in ran.events_of("gemm")} == {0, 1}
    modes = {(e["rank"], e["task"], e["mode"]) for e in ran.events_of("step")}
    alone = {(rank, task.number, "alone") for rank in (0, 1) for task in tasks[1:]}
    assert modes == alone | {(rank, at, "together") for rank in (0, 1) for at in (3, 4)}
    for event in ran.events_of("step"):
        phases = sum(event[f"{name}_us"] for name in ("data", "forward", "backward", "optimizer"))
        assert phases == pytest.approx(event["own_us"], rel=0.5)
        assert event["best_us"] <= event["median_us"] <= event["worst_us"]


@pytest.mark.gpu
def test_a_gpu_makes_of_its_rate_what_a_transformer_makes(ranks):
    """MFU by the GPU's own matrix multiplication: between a fifth and all of it."""
    if ranks.backend != "nccl" or missing_gpu():
        pytest.skip("needs a GPU")
    model = GPU_MODELS[0]
    tasks = (
        Task(0, "training", PLANE, ((0,),), "gemm", work=model.as_work("")),
        Task(1, "training", PLANE, ((0,),), "train", repeat=_REPEAT, work=model.as_work("ddp")),
    )
    ran, _ = ranks.run(1, *tasks)
    (gemm,), (step,) = ran.events_of("gemm"), ran.events_of("step")
    mfu = model.flops / step["median_us"] / (gemm["flops"] / gemm["median_us"])
    assert 0.2 < mfu < 1.0, f"{gemm['flops'] / gemm['median_us'] / 1e6:.0f} TFLOP/s, MFU {mfu:.2f}"


def test_weights_are_as_many_as_the_model_counts(ranks):
    """The controller counts them without torch."""
    if ranks.backend != "gloo":
        pytest.skip("one of the backends is enough")
    source = Path(rdmaprov.__file__).parents[1]
    argv = [python_with_torch(), "-c", _COUNT, str(source)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    small = type(CPU_MODEL)(256, 3, 4, 1, 1, 100, "float32")
    assert int(done.stdout) == small.parameters
