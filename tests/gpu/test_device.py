"""What the stage `gpu` measures with real ranks, and what it finds where one does wrong."""

import subprocess

import pytest
from tests.gpu.machine import missing_gpu
from tests.gpu.ranks import PLANE, python_with_torch
from tests.rank_hook import SLOW_CPU

from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import gpu as stage

# Bodies of the start-up hook of one rank: from some product on, its values are wrong, or it hangs.
_LATER = """\
    import torch
    multiply = torch.matmul
    def matmul(*words, **options):
        calls.append(1)
        done = multiply(*words, **options)
        if len(calls) > 20:
            {what}
        return done
    torch.matmul = matmul
"""
WRONG, HANG = (_LATER.format(what=w) for w in ("done[-1, -1] += 1", "time.sleep(36000)"))
_BUSY = """
import time, torch
one = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
print("busy", flush=True)
end = time.time() + 90
while time.time() < end:
    for _ in range(20):
        one @ one
    torch.cuda.synchronize()
"""


def measured(ranks, count=1):
    """Return the report of the stage over some ranks, and their GPUs."""
    work = dict(stage.WORK[ranks.backend])
    everyone = (tuple(range(count)),)
    ran, _ = ranks.run(count, Task(0, "gpu", PLANE, everyone, "gpu", work=work))
    report = StageReport("gpu")
    stage.judge(report, [ran])
    assert report.detail is not None
    return report, report.detail["devices"]


def test_a_good_device_is_measured_and_right(ranks):
    report, (device,) = measured(ranks)
    assert report.findings == [], report.text
    assert device["wrong"] == 0
    rates = ["tflops", "memory_gb_s", "to_gpu_gb_s", "from_gpu_gb_s"]
    assert all(device[rate] > 0 for rate in rates)
    if ranks.backend == "nccl":
        assert device["fp8_tflops"] > device["tflops"]
        assert device["pci"]
        assert all(unit in device["state"] for unit in ("MHz", "W", "°C"))


def test_a_slow_device_is_named_and_no_other(ranks):
    if ranks.backend == "nccl":
        pytest.skip("ranks that share a GPU are each other's disturbance")
    ranks.corrupt(1, SLOW_CPU)
    report, _ = measured(ranks, 3)
    assert [(each.node, each.kind) for each in report.findings] == [("n1", "device.slow")]


@pytest.mark.parametrize(("body", "kind"), [(WRONG, "gpu.wrong"), (HANG, "gpu.hung")])
def test_a_device_that_does_wrong_is_named(ranks, body, kind):
    ranks.corrupt(0, body)
    report, _ = measured(ranks)
    found = [each for each in report.findings if each.proven]
    assert [(each.node, each.kind, each.part) for each in found] == [("n0", kind, "GPU 0")]


@pytest.mark.gpu
def test_three_runs_agree_and_another_process_is_found(ranks):
    if ranks.backend != "nccl" or missing_gpu():
        pytest.skip("needs a GPU")
    rates = [measured(ranks)[1][0]["tflops"] for _ in range(3)]
    assert max(rates) / min(rates) < 1.01, rates
    argv = [python_with_torch(), "-c", _BUSY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        assert busy.stdout.readline() == "busy\n"
        report, (device,) = measured(ranks)
        busy.kill()
    assert [each.kind for each in report.findings] == ["gpu.disturbed"]
    assert device["tflops"] < 0.8 * min(rates)
