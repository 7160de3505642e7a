"""What a training step sends: bytes of each GPU, and of each node over its rails.

A collective of n GPUs that passes S bytes around a ring sends (n - 1) / n × S of each GPU, twice
that for an all-reduce (NVIDIA/nccl-tests, doc/PERFORMANCE.md). NCCL's rings pass each node once, so
the rails of a node together send as much as one of its GPUs; the others send over NVLink.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from rdmaprov.sizing.model import DTYPES, SizingError, Spread, TrainedModel

# torch's DistributedDataParallel, bucket_cap_mb: the last one has no computation to hide behind.
BUCKET_BYTES = 25 << 20


@dataclass(frozen=True)
class Flow:
    """What one part of a step sends.

    Args:
        node_bytes: that the rails of a node send in a step, together.
        formula: how `gpu_bytes` follows, and from where.
        last_share: of the bytes that no computation follows.
    """

    what: str
    gpu_bytes: float
    node_bytes: float
    formula: str
    hides: bool
    last_share: float = 0.0


def flows(model: TrainedModel, spread: Spread, tokens: float = 0.0) -> list[Flow]:
    """Return what a step sends.

    Args:
        tokens: of a step, of all replicas; 0: not known.

    Raises:
        SizingError: tensor or pipeline parallelism without what its traffic follows from.
    """
    if (spread.tensor > 1 or spread.pipeline > 1) and not (tokens and model.hidden):
        raise SizingError(
            "--tp and --pp send activations, whose size is not known",
            "Pass --batch-tokens and --hidden too, and --layers with --tp.",
        )
    if spread.tensor > 1 and not model.layers:
        raise SizingError("--tp reduces in each layer, of unknown number", "Pass --layers too.")
    return [
        *_data(model, spread),
        *_tensor(model, spread, tokens),
        *_pipeline(model, spread, tokens),
    ]


def _data(model: TrainedModel, spread: Spread) -> Iterator[Flow]:
    """Yield what replicas send: ZeRO counts 2 and 3 times the model (arXiv 1910.02054, part 7)."""
    n, part = spread.data, model.gradient_bytes / (spread.tensor * spread.pipeline)
    if n < 2:
        return
    share = (n - 1) / n
    inside = min(spread.tensor, spread.gpus_per_node)
    # Replicas that fit into a node need no rail; else each ring of a node's GPUs leaves it once.
    rings = 0 if spread.tensor * n <= spread.gpus_per_node else inside
    of = f"{gigabytes(part)}, n = {n}"
    if spread.strategy == "ddp":
        sent = 2 * share * part
        text = f"2 (n - 1) / n × {of} (ring all-reduce of gradients)"
        yield Flow("gradients", sent, rings * sent, text, True, min(BUCKET_BYTES / part, 1.0))
        return
    sent = 3 * share * part
    text = f"3 (n - 1) / n × {of} (weights gathered forward and backward, gradients scattered)"
    # The first layer's gather and the last one's scatter have nothing to hide behind.
    last = 2 / 3 / model.layers if model.layers else 0.0
    yield Flow("weights and gradients", sent, rings * sent, text, True, last)


def _tensor(model: TrainedModel, spread: Spread, tokens: float) -> Iterator[Flow]:
    """Yield Megatron's four all-reduces of a layer (arXiv 1909.08053, section 3)."""
    n = spread.tensor
    if n < 2:
        return
    activations = _activation_bytes(model, spread, tokens)
    layers = model.layers / spread.pipeline
    sent = 4 * layers * 2 * (n - 1) / n * activations
    each = f"2 (n - 1) / n × {gigabytes(activations)}, n = {n}"
    text = f"4 × {layers:g} layers × {each} (all-reduces of activations)"
    over = 0.0 if n <= spread.gpus_per_node else sent
    yield Flow("tensor parallelism", sent, over, text, False)


def _pipeline(model: TrainedModel, spread: Spread, tokens: float) -> Iterator[Flow]:
    """Yield what stages hand on, each GPU its part (Megatron-LM, arXiv 2104.04473, section 4.1)."""
    if spread.pipeline < 2:
        return
    activations = _activation_bytes(model, spread, tokens)
    sent = 2 * activations / spread.tensor
    text = (
        f"2 × {gigabytes(activations)} ÷ {spread.tensor} (activations forward, their gradients "
        "backward)"
    )
    over = sent * spread.gpus_per_node if spread.gpus > spread.gpus_per_node else 0.0
    yield Flow("pipeline", sent, over, text, False)


def _activation_bytes(model: TrainedModel, spread: Spread, tokens: float) -> float:
    """Return the activations between two layers of one replica's tokens, in bytes."""
    return tokens / spread.data * model.hidden * DTYPES[model.dtype]


def gigabytes(count: float) -> str:
    """Return bytes as they are shown, in units of ten: 1 GB is 10⁹ bytes."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"
