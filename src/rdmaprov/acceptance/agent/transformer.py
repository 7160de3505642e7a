"""A transformer by its sizes, with random weights: nothing is downloaded, nothing is learnt.

Pre-norm blocks of causal attention and a GELU network of four times the width, as GPT-2's.
`rdmaprov.acceptance.training.plan` counts the same weights and operations.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

WIDER = 4  # the inner network of a block, by its width


class TransformerBlock(nn.Module):  # type: ignore[misc]
    """Attention and a network, each with its norm and a residual."""

    def __init__(self, hidden: int, heads: int, kind: dict[str, Any]) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.LayerNorm(hidden, bias=False, **kind)
        self.attend = nn.Linear(hidden, 3 * hidden, bias=False, **kind)
        self.join = nn.Linear(hidden, hidden, bias=False, **kind)
        self.second = nn.LayerNorm(hidden, bias=False, **kind)
        self.widen = nn.Linear(hidden, WIDER * hidden, bias=False, **kind)
        self.narrow = nn.Linear(WIDER * hidden, hidden, bias=False, **kind)

    def forward(self, given: Any) -> Any:
        """Return the block's output: batch × sequence × hidden."""
        batch, length, hidden = given.shape
        parts = self.attend(self.first(given)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        given = given + self.join(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return given + self.narrow(functional.gelu(self.widen(self.second(given))))


class Transformer(nn.Module):  # type: ignore[misc]
    """Embedding, blocks, a norm, and logits of each token.

    Args:
        sizes: `hidden`, `layers`, `heads`, `vocabulary` and `dtype`.
    """

    def __init__(self, sizes: dict[str, Any], device: Any) -> None:
        super().__init__()
        kind = {"dtype": getattr(torch, sizes["dtype"]), "device": device}
        hidden = sizes["hidden"]
        self.embed = nn.Embedding(sizes["vocabulary"], hidden, **kind)
        self.blocks = nn.ModuleList(
            TransformerBlock(hidden, sizes["heads"], kind) for _ in range(sizes["layers"])
        )
        self.norm = nn.LayerNorm(hidden, bias=False, **kind)
        self.head = nn.Linear(hidden, sizes["vocabulary"], bias=False, **kind)

    def forward(self, tokens: Any) -> Any:
        """Return the loss of predicting each token from those before it."""
        given = self.embed(tokens[:, :-1])
        for block in self.blocks:
            given = block(given)
        logits = self.head(self.norm(given)).flatten(0, 1)
        return functional.cross_entropy(logits.float(), tokens[:, 1:].flatten())


def parallel(model: Any, strategy: str, group: Any, sizes: dict[str, Any], local: int) -> Any:
    """Return the model as ranks train it together.

    Args:
        strategy: `ddp` or `fsdp`.
        sizes: with `bucket_bytes`.
        local: the GPU's number; -1 without one.
    """
    if strategy == "ddp":
        return nn.parallel.DistributedDataParallel(
            model,
            device_ids=[local] if local >= 0 else None,
            process_group=group,
            bucket_cap_mb=sizes["bucket_bytes"] / (1 << 20),
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
        )
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    mesh = DeviceMesh.from_group(group, "cuda" if local >= 0 else "cpu")
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def has_fsdp() -> bool:
    """Return whether this torch has FSDP2 (2.4 and later, in this place since 2.6)."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return False
    return callable(fully_shard)
