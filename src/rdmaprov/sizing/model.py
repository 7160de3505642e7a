"""A model that is trained: its size, how it is spread over GPUs, and how long a step computes."""

import math
import re
from dataclasses import dataclass

from rdmaprov.errors import UsageError

# Bytes of a gradient, a weight or an activation, by torch's name of its type.
DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1}
# What papers call them.
SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp8": "float8"}
# A weight and a token take two operations forward and four backward.
# J. Kaplan and others, Scaling Laws for Neural Language Models, arXiv 2001.08361, section 2.1
FLOPS = 6
BACKWARD = 4 / 6
# Llama 3 reached 38 to 43 % (arXiv 2407.21783, table 4): 0.4 is our choice for a good job.
DEFAULT_MFU = 0.40
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


class SizingError(UsageError):
    """Numbers that no training job has."""


@dataclass(frozen=True)
class TrainedModel:
    """A model.

    Args:
        dtype: of gradients, of weights that are gathered, and of activations; of DTYPES.
        layers: transformer layers; 0: not known.
        hidden: width of a layer's activations; 0: not known.
    """

    parameters: float
    dtype: str
    layers: int = 0
    hidden: int = 0

    @property
    def short_dtype(self) -> str:
        """Return the short name of the type."""
        return next(short for short, name in SHORT.items() if name == self.dtype)

    @property
    def gradient_bytes(self) -> float:
        """Return the bytes of all gradients."""
        return self.parameters * DTYPES[self.dtype]


@dataclass(frozen=True)
class Spread:
    """How a job is spread over GPUs, in Megatron's order: tensors, then data, then the pipeline.

    Args:
        gpus_per_node: that share NVLink.
        strategy: `ddp` reduces gradients, `fsdp` also shards and gathers weights.
    """

    gpus: int
    gpus_per_node: int
    rails: int
    strategy: str = "ddp"
    tensor: int = 1
    pipeline: int = 1

    @property
    def data(self) -> int:
        """Return the number of replicas of the model."""
        return self.gpus // (self.tensor * self.pipeline)


def check_spread(spread: Spread) -> Spread:
    """Return the spread if its numbers fit each other.

    Raises:
        SizingError: the GPUs are no multiple of a part, or a part of NVLink's domain.
    """
    parts = spread.tensor * spread.pipeline
    if spread.gpus % parts:
        raise SizingError(
            f"--gpus {spread.gpus} is no multiple of --tp {spread.tensor} × --pp {spread.pipeline}",
            f"Pass a multiple of {parts} GPUs.",
        )
    if spread.gpus > spread.gpus_per_node and spread.gpus % spread.gpus_per_node:
        raise SizingError(
            f"--gpus {spread.gpus} is no multiple of --gpus-per-node {spread.gpus_per_node}",
            "Pass whole nodes.",
        )
    larger, smaller = (f(spread.tensor, spread.gpus_per_node) for f in (max, min))
    if larger % smaller:
        raise SizingError(
            f"--tp {spread.tensor} and --gpus-per-node {spread.gpus_per_node} do not divide each "
            "other",
            "Pass --tp with a divisor or a multiple of the GPUs of a node.",
        )
    return spread


def parse_parameters(text: str) -> float:
    """Return the number that a text such as `7e9` or `70B` means.

    Raises:
        SizingError: it means none, or none that a model has.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?)([KMBT]?)", text.strip())
    factor = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    number = float(found[1]) * factor[found[2]] if found else 0.0
    if not 1 <= number <= 1e15:
        raise SizingError(
            f"--parameters {text!r} is not a number of parameters",
            "Pass a number from 1 to 1e15, such as 7e9 or 70B.",
        )
    return number


def step_seconds(model: TrainedModel, gpus: int, gpu: str, tokens: float, mfu: float) -> float:
    """Return how long a step computes.

    Args:
        tokens: of a step, of all replicas.
        mfu: model FLOP/s by the GPUs' peak.

    Raises:
        SizingError: the GPU is not known.
    """
    return FLOPS * model.parameters * tokens / (gpus * peak_tflops(gpu) * 1e12 * mfu)


def peaks(gpu: str) -> tuple[float, float] | None:
    """Return a GPU's dense peak in bfloat16, TFLOP/s, and its memory's, GB/s; None: not known."""
    return next(((flops, gb_s) for name, flops, gb_s in _PEAKS if re.search(name, gpu)), None)


def peak_tflops(gpu: str) -> float:
    """Return the dense peak of a GPU in bfloat16, in TFLOP/s.

    Raises:
        SizingError: the GPU is not known.
    """
    if known := peaks(gpu):
        return known[0]
    raise SizingError(
        f"--gpu {gpu!r}: its peak rate is not known",
        "Known: V100, A100, H100, H200, H20, H800, B200, GB200, L40S, MI300X. Else pass --step-s.",
    )


def positive(option: str, value: float) -> float:
    """Return a number of an option if it is above zero and finite.

    Raises:
        SizingError: the number is zero, negative or infinite.
    """
    if not 0 < value < math.inf:
        raise SizingError(f"{option} must be above 0, not {value:g}", f"Pass {option} above 0.")
    return value
