"""What the GPUs of a made-up fleet do by themselves, and the faults that only this shows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.madeup.condition import Condition
from tests.madeup.faults import Chance, FaultKind, Truth, any_gpu, of_gpu, of_node
from tests.madeup.fleet import MadeUpFleet
from tests.madeup.node_faults import slow_gpu, throttled_power

from rdmaprov.acceptance.ranks.plan import GateJob, Task

# By model: TFLOP/s in bf16 and fp8, GB/s of memory and of copies. H100: a run on one
# (docs/one-gpu.md), fp8 there; A100: 312 TFLOP/s and 2,039 GB/s on paper, PCIe 4.0.
_MODELS = {
    "NVIDIA H100 80GB HBM3": (680.0, 1197.0, 3029.0, 52.0),
    "NVIDIA A100-SXM4-80GB": (255.0, 0.0, 1750.0, 24.0),
}
USUAL, OTHER = _MODELS
# Of GPUs of one model in memory and on their links; by themselves they
# differ by 1 to 2 % in arithmetic ("Not all GPUs are created equal", Sinha and others, SC 22).
_MEMORY_SPREAD, _LINK_SPREAD, _DEVICE_SPREAD = 0.005, 0.02, 0.01
_POWER_CAP, _SW_THERMAL, _POWER_BRAKE = 0x4, 0x20, 0x80
# At the power cap the rate swings: 0.5 % from second to second on an H200.
_SWING = 0.005


@dataclass
class GpuState:
    """What is bad in one GPU beside Condition.gemm_share; `slows` is its share from second 8 on."""

    memory: float = 1.0
    link: float = 1.0
    reasons: int = _POWER_CAP
    wrong: int = 0
    replays: float = 0
    slows: float = 1.0
    model: str = USUAL


def gpu_events(fleet: MadeUpFleet, job: GateJob, task: Task) -> list[dict[str, Any]]:
    chance, noise, found = fleet.chance, fleet.noise, []
    state = fleet.state()
    for rank, group in task.group_of.items():
        node, gpu = fleet.number_of[job.node_of(rank)], rank % job.per_node
        own = fleet.condition.gpus.get((node, gpu), GpuState())
        bf16, fp8, memory, link = _MODELS[own.model]
        share = state.gemm_share[node, gpu] * (1 + _DEVICE_SPREAD * chance.standard_normal())
        share /= 1 + state.foreign_process[node, gpu]  # half of the time is the other's
        swings = 1 + _SWING * chance.standard_normal(int(task.work["seconds"][0]))
        rates = [
            bf16 * share * swing * (own.slows if second >= 8 else 1.0)
            for second, swing in enumerate(swings.tolist())
        ]
        many = [1 + spread * chance.standard_normal() for spread in (noise, _MEMORY_SPREAD)]
        links = [1 + _LINK_SPREAD * chance.standard_normal() for _ in range(2)]
        found.append(
            {
                "event": "gpu",
                "rank": rank,
                "plane": task.plane,
                "task": task.number,
                "group": group,
                "device": own.model,
                "pci": f"0000:{0x10 + 8 * gpu:02x}:00.0",
                "link": [16.0 * own.link, 16.0, 32.0, 32.0],
                "limit_w": 700.0,
                "processes": 1 + int(state.foreign_process[node, gpu]),
                "replays": int(own.replays) or rank % 3,  # healthy links have some
                "spans": [_span(rate, bf16, own.reasons) for rate in rates],
                "fp8_tflops": fp8 * share * many[0],
                "memory_gb_s": memory * own.memory * many[1],
                "to_gpu_gb_s": link * own.link * links[0],
                "from_gpu_gb_s": link * own.link * links[1],
                "wrong": {"float32": 0, "bfloat16": 0, "repeated": own.wrong},
                "checked": 24,
            }
        )
    return found


def _span(rate: float, usual: float, reasons: int) -> dict[str, float]:
    sensors = {"mhz": (1400 * rate / usual), "watts": 690.0, "celsius": 65.0, "reasons": reasons}
    return {"tflops": rate, "cpu_tflops": rate, **sensors}


def _one(what: str, least: float, most: float, **more: Any) -> Callable[..., tuple[Truth, ...]]:
    """Return what makes one GPU bad: an attribute of its state, between two shares."""

    def breaks(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
        node, gpu = any_gpu(condition, chance)
        share = chance.uniform(least, most)
        if what == "gemm":
            condition.gemm_share[node, gpu] *= share
        else:
            more[what] = share
        condition.gpus[node, gpu] = GpuState(**more)
        return tuple(reversed(of_gpu(node)))

    return breaks


def _fleet_slow(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    condition.gemm_share *= chance.uniform(0.3, 0.5)
    return (Truth("fleet"),)


def _hot_rack(condition: Condition, chance: Chance) -> tuple[Truth, ...]:
    """Have the GPUs of all nodes of a rack, a block here, protect themselves from heat."""
    shape = condition.shape
    block = chance.randrange(shape.blocks)
    nodes = [node for node in range(shape.nodes) if shape.block_of(node) == block]
    for node in nodes:
        for gpu in range(shape.gpus):
            condition.gemm_share[node, gpu] *= chance.uniform(0.6, 0.8)
            condition.gpus[node, gpu] = GpuState(reasons=_SW_THERMAL)
    return tuple(truth for node in nodes for truth in of_node(node))


def _two_models(condition: Condition, _chance: Chance) -> tuple[Truth, ...]:
    for node in range(condition.shape.nodes // 2):
        for gpu in range(condition.shape.gpus):
            condition.gpus[node, gpu] = GpuState(model=OTHER)
    return ()


_SDC = "Meta, Silent Data Corruptions at Scale, arXiv 2102.11245"
_SC22 = "Not all GPUs are created equal, SC 22"
_BRAKES = _one("gemm", 0.4, 0.8, reasons=_POWER_BRAKE)
# Each as a FaultKind: its name, what it changes, its source, the level, and what breaks a fleet.
_KINDS: tuple[tuple[Any, ...], ...] = (
    ("slow-gpu", "one GPU at half its rate", "faults.slow-gpu", "rank", slow_gpu),
    ("hot-gpu", "one GPU at 60 to 85 %", _SC22, "rank", _one("gemm", 0.6, 0.85)),
    ("slow-node", "all of a node at half", "throttled-power", "node", throttled_power),
    ("throttled-gpu", "one GPU at 40 to 80 %, with the power brake on", "nvml.h", "rank", _BRAKES),
    ("becomes-slow", "one at 60 to 80 % after 8 s", _SC22, "rank", _one("slows", 0.6, 0.8)),
    ("slow-memory", "memory at 50 to 85 %", "Guard", "rank", _one("memory", 0.5, 0.85)),
    ("half-link", "half of a GPU's lanes", "nccl#1298", "rank", _one("link", 0.5, 0.5)),
    (
        *("replaying", "a link that sends 40 to 5000 packets again", "PCIe 5.0, 3.6.2.1", "rank"),
        _one("replays", 40, 5000),
    ),
    ("corrupting", "one wrong value", _SDC, "rank", _one("link", 1, 1, wrong=1)),
    ("hot-rack", "a rack at 60 to 80 %", _SC22, "node", _hot_rack),
    ("fleet-slow", "all at 30 to 50 %", "clocks locked", "fleet", _fleet_slow),
    ("healthy-two-models", "half have A100", "a grown fleet", "", _two_models),
)
GPU_FAULTS = {name: FaultKind(name, *rest) for name, *rest in _KINDS}
