"""The transformer that is trained: its sizes, what it computes, what memory it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rdmaprov.sizing.model import FLOPS, TrainedModel
from rdmaprov.sizing.traffic import BUCKET_BYTES

STRATEGIES = ("ddp", "fsdp")
# AdamW keeps a weight, a gradient and two moments, here all of one type.
_STATES = 4
# Bytes of activations for a token, a layer and a unit of width, without the scores of attention,
# which are not kept: Korthikanti and others, arXiv 2205.05198, equation 2. Of 16-bit activations.
_ACTIVATION_BYTES = 34
# Logits of a token: in 16 bit, as float32, and the gradients of both.
_LOGIT_BYTES = 12
# Of the memory that is free: the rest is for buckets, buffers of collectives and fragments; ours.
_MEMORY_SHARE = 0.8


@dataclass(frozen=True)
class TransformerSizes:
    """A transformer, and the batch of each device.

    Args:
        sequence: tokens of a sequence.
        dtype: torch's name, of weights, gradients, activations and the optimizer's moments.
        bucket_bytes: gradients that DDP reduces at once.
    """

    hidden: int
    layers: int
    heads: int
    sequence: int
    batch: int
    vocabulary: int
    dtype: str
    bucket_bytes: int = BUCKET_BYTES

    @property
    def tokens(self) -> int:
        """Return the tokens of a device and step."""
        return self.batch * self.sequence

    @property
    def parameters(self) -> int:
        """Return the number of weights, as agent/transformer.py makes them."""
        block = 12 * self.hidden**2 + 2 * self.hidden
        return self.layers * block + self.hidden * (2 * self.vocabulary + 1)

    @property
    def trained(self) -> TrainedModel:
        """Return it as the sizing of a fabric knows a model."""
        return TrainedModel(self.parameters, self.dtype, self.layers, self.hidden)

    @property
    def gradient_bytes(self) -> int:
        """Return the bytes of all gradients."""
        return int(self.trained.gradient_bytes)

    @property
    def flops(self) -> float:
        """Return the operations of a device's step.

        Six for each weight that multiplies and each token (sizing.model.FLOPS), and those of causal
        attention: 12 · layers · hidden · sequence for a token (arXiv 2204.02311, appendix B), of
        which half are not computed, as a token attends to those before it alone.
        """
        multiplying = 12 * self.layers * self.hidden**2 + self.vocabulary * self.hidden
        attention = 6 * self.layers * self.hidden * self.sequence
        return float(self.tokens * (FLOPS * multiplying + attention))

    @property
    def memory_bytes(self) -> float:
        """Return the memory of a device that trains it by itself, in bytes."""
        weights = _STATES * self.gradient_bytes
        activations = _ACTIVATION_BYTES * self.tokens * self.hidden * self.layers
        return weights + activations + _LOGIT_BYTES * self.tokens * self.vocabulary

    def as_work(self, strategy: str) -> Mapping[str, Any]:
        """Return what the ranks of a task are told."""
        return {**asdict(self), "strategy": strategy}


# Megatron-Core reduces 40 million parameters at once or more, as larger groups need larger messages
# to outweigh their latency (DistributedDataParallelConfig.bucket_size); 80 MB of bfloat16.
GPU_BUCKET_BYTES = 2 * 40_000_000
# The largest that fits is taken: our choice. 3.5, 1.0 and 0.13 billion weights; each multiplies
# matrices that are large enough for a GPU's full rate.
GPU_MODELS = tuple(
    TransformerSizes(*sizes, 32_000, "bfloat16", GPU_BUCKET_BYTES)
    for sizes in ((4096, 16, 32, 4096, 2), (2048, 18, 16, 4096, 2), (1024, 6, 8, 2048, 2))
)
# A step of half a billion operations, and gradients of 2 MiB: the whole path on emulated
# processors, whose numbers say nothing about a GPU. Buckets so small that there are several.
CPU_MODEL = TransformerSizes(128, 2, 4, 64, 2, 512, "float32", 512 << 10)


def choose_model(backend: str, free_bytes: int) -> TransformerSizes:
    """Return the largest model that fits.

    Args:
        backend: `nccl` or `gloo`.
        free_bytes: of the GPU that has least.
    """
    if backend != "nccl":
        return CPU_MODEL
    room = _MEMORY_SHARE * free_bytes
    return next((each for each in GPU_MODELS if each.memory_bytes <= room), GPU_MODELS[-1])
