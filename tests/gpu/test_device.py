"""What the stage `gpu` measures with real ranks, and what it finds where one does wrong."""

import re
import subprocess
from pathlib import Path

import pytest
from tests.gpu.machine import missing_gpu
from tests.gpu.ranks import PLANE, python_with_torch
from tests.rank_hook import SLOW_CPU
from tests.tables import cases

from rdmaprov.acceptance.ranks.plan import Task
from rdmaprov.acceptance.stage_report import StageReport
from rdmaprov.acceptance.stages import gpu as stage
from rdmaprov.facts import gpu, gpu_health
from rdmaprov.node.gpus import kernel_address, read_gpus

# Bodies of the start-up hook of one rank: from some product on, its values are wrong, or it hangs.
_LATER = cases(__file__, "later")
WRONG, HANG = (_LATER.format(what=w) for w in ("done[-1, -1] += 1", "time.sleep(36000)"))
_BUSY = cases(__file__, "busy")


def measured(ranks, count=1, **changed):
    work = {**stage.WORK[ranks.backend], **changed}
    ran, _ = ranks.run(count, Task(0, "gpu", PLANE, (tuple(range(count)),), "gpu", work=work))
    report = StageReport("gpu")
    stage.judge(report, [ran])
    assert report.detail is not None
    return report, report.detail["devices"]


def rate_of_good_device(ranks):
    report, (device,) = measured(ranks)
    assert report.findings == [], report.text
    assert device["wrong"] == 0
    rates = ["tflops", "memory_gb_s", "to_gpu_gb_s", "from_gpu_gb_s"]
    assert all(device[rate] > 0 for rate in rates)
    if ranks.backend == "nccl":
        assert device["fp8_tflops"] > device["tflops"]
        assert device["pci"]
        assert all(unit in device["state"] for unit in ("MHz", "W", "°C"))
    return device["tflops"]


@pytest.mark.parametrize("backend", [pytest.param("gloo", marks=pytest.mark.long)], indirect=True)
def test_a_good_device_is_measured_and_right(ranks):
    assert rate_of_good_device(ranks) > 0


def test_a_slow_device_is_named_and_no_other(ranks):
    if ranks.backend == "nccl":
        pytest.skip("ranks that share a GPU are each other's disturbance")
    ranks.corrupt(1, SLOW_CPU)
    report, _ = measured(ranks, 3)
    assert [(each.node, each.kind) for each in report.findings] == [("n1", "device.slow")]


@pytest.mark.parametrize(("body", "kind"), [(WRONG, "gpu.wrong"), (HANG, "gpu.hung")])
def test_a_device_that_does_wrong_is_named(ranks, body, kind):
    ranks.corrupt(0, body)
    # Short: no rate is judged.
    report, _ = measured(ranks, seconds=stage.WORK["gloo"]["seconds"])
    found = [each for each in report.findings if each.proven]
    assert [(each.node, each.kind, each.part) for each in found] == [("n0", kind, "GPU 0")]


@pytest.mark.parametrize("backend", [pytest.param("nccl", marks=pytest.mark.gpu)], indirect=True)
def test_three_runs_agree_and_another_process_is_found(ranks):
    rates = [rate_of_good_device(ranks) for _ in range(3)]
    assert max(rates) / min(rates) < 1.01, rates
    argv = [python_with_torch(), "-c", _BUSY]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as busy:
        assert busy.stdout is not None
        assert busy.stdout.readline() == "busy\n"
        report, (device,) = measured(ranks)
        busy.kill()
    assert [each.kind for each in report.findings] == ["gpu.disturbed"]
    assert device["tflops"] < 0.8 * min(rates)


def driver_says(*words):
    return subprocess.run(["nvidia-smi", *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture(
    params=[
        pytest.param("h100-580-idle", marks=pytest.mark.long),
        pytest.param("h200-580-load", marks=pytest.mark.long),
        pytest.param("here", marks=pytest.mark.gpu),
    ]
)
def query(request):
    if request.param != "here":
        return (Path(__file__).parents[1] / f"fixtures/nvidia-smi/{request.param}.txt").read_text()
    if why := missing_gpu():
        pytest.fail(why, pytrace=False)
    return driver_says("-q")


def test_all_that_the_driver_prints_of_each_gpu_is_read(query, request):
    _, *blocks = re.split(r"(?m)^(?=GPU [0-9A-Fa-f:.]+$)", query)
    seen = gpu.parse(query).gpus
    assert [each.address for each in seen] == [kernel_address(block.split()[1]) for block in blocks]
    for each, block in zip(seen, blocks, strict=True):
        # Of the processes on a GPU, the first one alone is read.
        printed = re.findall(r"(?m)^ +(\S.*?) +: (.*)$", block.partition("\n    Processes")[0])
        read = {(path.rpartition("/")[2], text) for path, text in each.values.items()}
        assert len(printed) > 100
        assert {(name.lower(), text.strip()) for name, text in printed} <= read
        judged = [f for row in gpu_health.table() for f in gpu_health.findings(each, row["check"])]
        assert [found for found in judged if found.wanted is None] == []
    if "here" in request.node.callspec.id:
        listed = read_gpus()["gpus"]
        assert [each.text("product name") for each in seen] == [row["name"] for row in listed]
        fields = "--query-gpu=power.default_limit,ecc.mode.current"
        asked = driver_says(fields, "--format=csv,noheader").replace("[N/A]", "N/A").splitlines()
        assert [power_and_ecc(each.values) for each in seen] == asked


def power_and_ecc(values):
    """Return them as --query-gpu prints them; before driver 530, the section had another name."""
    power = [text for path, text in values.items() if path.endswith("/default power limit")]
    return f"{power[0]}, {values.get('ecc mode/current', values.get('ecc mode'))}"
