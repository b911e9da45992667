"""A small GPT and its text: the same for every way to train it.

The text is one play of Shakespeare, its tokens are bytes. The model is the usual one (pre-norm
blocks of causal attention and a feed-forward network), with four choices that make it easy to
divide over ranks, whatever the strategy:

* Queries, keys and values are three layers, not one of three times the width. A tensor-parallel
  rank takes the first rows of each; of one fused layer it would get all the queries and no keys.
* Sizes inside ``forward`` come from the tensors, not from the model: a rank that holds half of the
  heads runs the same code.
* The head has weights of its own. Tied to the embedding they would be one tensor on the first and
  the last stage of a pipeline, to be reduced between them after every step.
* Every weight has a generator of its own, seeded by its name: a rank that builds one stage, or
  builds the layers in another order, begins with exactly the same numbers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.nn import functional
from torch.utils.checkpoint import create_selective_checkpoint_contexts
from torch.utils.data import DataLoader, Dataset, DistributedSampler

HERE = Path(__file__).parent
BYTES = 256  # a token is a byte


class Sizes(NamedTuple):
    """Of the model. ``model.json`` holds them under the names that Hugging Face gives them."""

    layers: int
    hidden: int
    heads: int
    ffn: int
    seq_len: int
    dropout: float = 0.0

    @classmethod
    def read(cls, file: Path, seq_len: int) -> Sizes:
        """Sizes from a config.json."""
        found = json.loads(file.read_text())
        names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
        return cls(*(found[name] for name in names), seq_len)


class Attention(nn.Module):
    """Causal self-attention over the heads that this rank has."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.width = sizes.hidden // sizes.heads
        self.query = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.key = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.value = nn.Linear(sizes.hidden, sizes.hidden, bias=False)
        self.out = nn.Linear(sizes.hidden, sizes.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """One layer of the model: what strategies wrap, shard, recompute and put on a stage."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(sizes.hidden)
        self.attention = Attention(sizes)
        self.norm2 = nn.LayerNorm(sizes.hidden)
        self.up = nn.Linear(sizes.hidden, sizes.ffn, bias=False)
        self.down = nn.Linear(sizes.ffn, sizes.hidden, bias=False)
        self.dropout = sizes.dropout

    def forward(self, x: Tensor) -> Tensor:
        x = x + functional.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        fed = self.down(functional.gelu(self.up(self.norm2(x))))
        return x + functional.dropout(fed, self.dropout, self.training)


class GPT(nn.Module):
    """Bytes in, one score for each possible next byte out.

    ``layers`` says which blocks are built: all of them, or those of one stage of a pipeline. The
    first stage has the embeddings too, the last one the head. A block keeps its number in every
    name (``blocks.3.up.weight``), so a checkpoint does not know of stages.
    """

    _no_split_modules = ("Block",)  # where accelerate looks for the layer to wrap

    def __init__(self, sizes: Sizes, seed: int, layers: range | None = None) -> None:
        super().__init__()
        layers = range(sizes.layers) if layers is None else layers
        first, last = layers.start == 0, layers.stop == sizes.layers
        self.token = nn.Embedding(BYTES, sizes.hidden) if first else None
        self.position = nn.Embedding(sizes.seq_len, sizes.hidden) if first else None
        self.blocks = nn.ModuleDict({str(n): Block(sizes) for n in layers})
        self.norm = nn.LayerNorm(sizes.hidden) if last else None
        self.head = nn.Linear(sizes.hidden, BYTES, bias=False) if last else None
        self.begin(sizes, seed)

    def forward(self, x: Tensor) -> Tensor:
        if self.token is not None and self.position is not None:
            x = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks.values():
            x = block(x)
        return x if self.head is None or self.norm is None else self.head(self.norm(x))

    @torch.no_grad()
    def begin(self, sizes: Sizes, seed: int) -> None:
        """The first weights: those of a name are the same wherever and whenever it is built."""
        for name, weight in self.named_parameters():
            if weight.dim() < 2:  # a norm begins as 1 and 0
                continue
            own = torch.Generator().manual_seed(seed + zlib.crc32(name.encode()))
            residual = name.endswith(("out.weight", "down.weight"))
            scale = 0.02 / (2 * sizes.layers) ** 0.5 if residual else 0.02
            weight.normal_(0, scale, generator=own)


def loss_of(scores: Tensor, target: Tensor) -> Tensor:
    """The mean cross-entropy of a micro-batch, in fp32 whatever the scores are in."""
    return functional.cross_entropy(scores.float().flatten(0, 1), target.flatten())


def recompute(model: nn.Module, kind: str) -> None:
    """Activation checkpointing: keep less of a block's forward pass, and run it again for backward.

    ``full`` keeps a block's input alone; ``selective`` also what its matrix products and attention
    gave, which are most of the work and a part of the memory. The blocks are exchanged for wrapped
    ones: FSDP1 wants this after it has wrapped the model, FSDP2 and DDP before.
    """
    if kind == "none":
        return
    aten = torch.ops.aten
    kept = [
        aten.mm.default,
        aten._scaled_dot_product_flash_attention.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default,
    ]
    chosen = partial(create_selective_checkpoint_contexts, kept)
    # the reentrant kind, the other one, is older and does not go with all that hooks into backward
    options = {} if kind == "full" else {"context_fn": chosen}
    apply_activation_checkpointing(
        model,
        checkpoint_wrapper_fn=partial(checkpoint_wrapper, **options),
        check_fn=lambda module: isinstance(module, Block),
    )


class Windows(Dataset[tuple[Tensor, Tensor]]):
    """The text in pieces of one length, each with its target: the same piece one byte later."""

    def __init__(self, seq_len: int, most: int | None = None) -> None:
        text = torch.frombuffer(bytearray((HERE / "text.txt").read_bytes()), dtype=torch.uint8)
        self.text, self.seq_len = text.long(), seq_len
        count = (len(text) - 1) // seq_len
        self.count = min(count, most) if most else count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        start = number * self.seq_len
        piece = self.text[start : start + self.seq_len + 1]
        return piece[:-1], piece[1:]


class Order(DistributedSampler[tuple[Tensor, Tensor]]):
    """torch's DistributedSampler that can begin inside an epoch, where the last start left off.

    Sample k of the epoch's order goes to rank k modulo the ranks. So the ranks together take the
    same samples in the same step however many they are, and a restart needs one number only.
    """

    def __init__(self, data: Windows, ranks: int, rank: int, seed: int) -> None:
        super().__init__(data, ranks, rank, seed=seed, drop_last=True)
        self.seen = 0
        """Samples of this epoch that all ranks together have had."""

    def __iter__(self) -> Iterator[int]:
        return islice(super().__iter__(), self.seen // self.num_replicas, None)


def micro_batches(order: Order, micro: int, accumulation: int) -> Iterator[tuple[Any, ...]]:
    """Those of each step, to the end of the epoch; what does not fill a step is left out."""
    # a loader draws a number whenever it begins: from a generator of its own, or a restart inside
    # an epoch would draw one more than the run without it, and dropout would go another way
    own = torch.Generator()
    loader = DataLoader(order.dataset, micro, sampler=order, drop_last=True, generator=own)
    return zip(*[iter(loader)] * accumulation, strict=False)
