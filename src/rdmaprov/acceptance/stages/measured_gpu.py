"""What one GPU did in the stage `gpu`, and what its model can do at most."""

import re
import statistics
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rdmaprov.acceptance.ranks.events import RankEvent

# Dense TFLOP/s in bfloat16 (V100: float16) and GB/s of memory of NVIDIA's and AMD's data sheets, by
# what nvidia-smi prints. Cards that share their name with a faster one come before it.
_PEAKS = (
    (r"\bH100 NVL\b", 835.0, 3938.0),
    (r"\bH100 PCIe\b", 756.0, 2039.0),
    (r"\bG?H200\b", 989.0, 4800.0),
    (r"\bH100\b|\bH800\b", 989.0, 3352.0),
    (r"\bH20\b", 148.0, 4000.0),
    (r"\bGB200\b", 2500.0, 8000.0),
    (r"\bB200\b", 2250.0, 8000.0),
    (r"\bA[18]00.*-40GB\b", 312.0, 1555.0),
    (r"\bA[18]00.*PCI", 312.0, 1935.0),
    (r"\bA[18]00\b", 312.0, 2039.0),
    (r"\bL40S\b", 362.0, 864.0),
    (r"\bV100\b", 125.0, 900.0),
    (r"\bMI300X\b", 1307.0, 5300.0),
)

# The rate of the first seconds is another one: docs/one-gpu.md.
SETTLE = 2
# nvml.h, NvmlClocksEventReasons: a GPU that protects itself. A power cap, idle clocks and clocks
# that an operator set are none.
REASONS = {
    0x8: "HW slowdown",
    0x20: "SW thermal slowdown",
    0x40: "HW thermal slowdown",
    0x80: "HW power brake",
}


def peaks(gpu: str) -> tuple[float, float] | None:
    """Return a GPU's dense peak in bfloat16, TFLOP/s, and its memory's, GB/s; None: not known."""
    return next(((flops, gb_s) for name, flops, gb_s in _PEAKS if re.search(name, gpu)), None)


@dataclass(frozen=True)
class MeasuredGpu:
    """What one GPU did."""

    node: str
    number: int
    event: RankEvent
    # whether it is a GPU; else a CPU, judged by the time that its process had one
    on_gpu: bool = True

    @cached_property
    def rates(self) -> list[float]:
        """Return the rate of each second, 10¹² operations a second."""
        key = "tflops" if self.on_gpu else "cpu_tflops"
        return [float(span[key]) for span in self.event["spans"]]

    @cached_property
    def tflops(self) -> float:
        """Return its usual rate, once it has settled."""
        return statistics.median(self.rates[SETTLE:] or self.rates)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return by which reasons it protected itself in most seconds."""
        spans = self.event["spans"]
        return tuple(
            name
            for bit, name in REASONS.items()
            if 2 * sum(bool(span["reasons"] & bit) for span in spans) > len(spans)
        )

    @property
    def is_shared(self) -> bool:
        """Return whether another process computed on it, too."""
        return bool(self.event["processes"] > 1)

    @property
    def replays(self) -> int | None:
        """Return how many packets its PCIe link sent again; None where its driver does not say."""
        found = int(self.event.get("replays", -1))
        return None if found < 0 else found

    @property
    def name(self) -> str:
        """Return what it is called in its node."""
        if not self.on_gpu:
            return "its CPU"
        at = self.event["pci"]
        return f"GPU {self.number}{f' ({at})' if at else ''}"

    @property
    def state(self) -> str:
        """Return what its driver said while it worked, in short; empty if nothing."""
        spans = self.event["spans"]
        said = [
            f"{statistics.median(s[key] for s in spans):.0f} {unit}"
            for key, unit in (("mhz", "MHz"), ("watts", "W"), ("celsius", "°C"))
            if all(span[key] >= 0 for span in spans)
        ]
        return ", ".join([*said, *self.reasons])

    def as_data(self) -> dict[str, Any]:
        """Return a GPU as results.json has it."""
        event = self.event
        return {
            "node": self.node,
            "gpu": self.number,
            "device": event["device"],
            "pci": event["pci"] or None,
            "tflops": round(self.tflops, 3),
            "fp8_tflops": round(event["fp8_tflops"], 3) or None,
            "memory_gb_s": round(event["memory_gb_s"], 3),
            "to_gpu_gb_s": round(event["to_gpu_gb_s"], 3),
            "from_gpu_gb_s": round(event["from_gpu_gb_s"], 3),
            "wrong": sum(event["wrong"].values()),
            "replays": self.replays,
            "state": self.state,
        }
