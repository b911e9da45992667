"""How often attention without a fused kernel reads and writes its scores, and GELU written out its
tensors, as JSON.

Operations that reach torch's dispatcher, in units of all scores in the type of the products, or in
bytes of an element, for one layer. CUDA's dropout is one operation, and its autocast computes pow,
softmax and layer_norm in fp32 (torch, aten/src/ATen/autocast_mode.h), which a CPU's does not: both
are put in place of the CPU's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HEADS, TOKENS, WIDTH = 4, 40, 16
"""So that no other tensor has as many elements as scores, or as the feed-forward layer's."""
SCORES = HEADS * TOKENS * TOKENS
INNER = TOKENS * 4 * HEADS * WIDTH
_PRODUCTS = ("::mm", "::addmm")


class ScoreCounter(TorchDispatchMode):
    """Adds up the bytes of tensors of so many elements, and counts operations that are kernels."""

    def __init__(self, elements: int = SCORES) -> None:
        super().__init__()
        self.bytes = 0
        self.kernels = 0
        self.elements = elements

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count what this operation reads and writes."""
        out = func(*args, **(kwargs or {}))
        aliases = (each.alias_info for each in func._schema.returns)
        if any(alias is not None and not alias.is_write for alias in aliases):
            return out
        if func._schema.name.endswith(("detach", "_unsafe_view")):
            return out
        self.kernels += 1
        if not func._schema.name.endswith(_PRODUCTS):
            self.bytes += sum(map(self.measure, tree_leaves((args, kwargs, out))))
        return out

    def measure(self, value: object) -> int:
        """Bytes of a tensor of so many elements; 0 of anything else."""
        if isinstance(value, Tensor) and value.numel() == self.elements:
            return value.numel() * value.element_size()
        return 0


def build_llama(dtype: torch.dtype, *, autocast: bool = False) -> Callable[[], Tensor]:
    """The loss of transformers' Llama of one layer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=HEADS * WIDTH,
        intermediate_size=2 * HEADS * WIDTH,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        vocab_size=32,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).to(dtype).train()
    words = torch.randint(0, 32, (1, TOKENS))

    def run() -> Tensor:
        with behave_like_cuda(autocast=autocast):
            return model(input_ids=words, labels=words).loss

    return run


def build_gpt2(precision: str, dropout: float, layers: int = 1) -> Callable[[], Tensor]:
    """The loss of transformers' GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_embd=HEADS * WIDTH,
        n_head=HEADS,
        n_layer=layers,
        n_positions=TOKENS,
        vocab_size=32,
        resid_pdrop=dropout,
        attn_pdrop=dropout,
        embd_pdrop=dropout,
        attn_implementation="eager",
        bos_token_id=0,
        eos_token_id=0,
    )
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = GPT2LMHeadModel(config).to(dtype).train()
    words = torch.randint(0, 32, (1, TOKENS))

    def run() -> Tensor:
        with behave_like_cuda(autocast=precision == "autocast"):
            return model(input_ids=words, labels=words, use_cache=False).loss

    return run


@contextmanager
def behave_like_cuda(*, autocast: bool) -> Iterator[None]:
    """Dropout as one operation, and CUDA's list of what autocast computes in fp32."""
    functions, power = torch.nn.functional, torch.pow
    softmax, norm = functions.softmax, functions.layer_norm
    drop = torch.ops.aten.native_dropout

    def dropout(value: Tensor, p: float, training: bool, *_: bool) -> Tensor:
        return drop(value, p, training)[0] if p and training else value

    with ExitStack() as stack:
        stack.enter_context(patch.object(functions, "dropout", dropout))
        if autocast:
            stack.enter_context(torch.autocast("cpu", torch.bfloat16))
            wide = {
                (torch, "pow"): lambda one, other: power(one.float(), other),
                (functions, "softmax"): lambda one, dim, **_: softmax(one.float(), dim=dim),
                (functions, "layer_norm"): lambda one, *more: norm(one.float(), *more),
            }
            for (module, name), function in wide.items():
                stack.enter_context(patch.object(module, name, function))
        yield


def count_gpt2(precision: str, dropout: float, elements: int) -> list[float]:
    """Bytes that a GPT-2's layer reads and writes of each element, forward and backward."""
    return count(build_gpt2(precision, dropout), 1, elements)


def count_kernels_of_gpt2(precision: str, dropout: float) -> int:
    """Kernels of its forward pass, by the difference of two layers and one."""
    kernels = []
    for layers in (1, 2):
        run = build_gpt2(precision, dropout, layers)
        with ScoreCounter() as counter:
            run()
        kernels.append(counter.kernels)
    return kernels[1] - kernels[0]


def attend_sloped(dtype: torch.dtype) -> Callable[[], Tensor]:
    """The operations of Baichuan2-13B's attention, whose mask has the slopes of ALiBi in it."""
    queries, keys, values = (
        torch.randn(1, HEADS, TOKENS, WIDTH, dtype=dtype, requires_grad=True) for _ in range(3)
    )
    mask = torch.randn(HEADS, TOKENS, TOKENS, dtype=dtype)

    def attend() -> Tensor:
        scores = torch.matmul(queries, keys.transpose(2, 3)) / WIDTH**0.5
        scores = torch.max(scores + mask, torch.tensor(torch.finfo(dtype).min))
        return torch.matmul(torch.softmax(scores, dim=-1), values).sum()

    return attend


def count(run: Callable[[], Tensor], width: int, elements: int = SCORES) -> list[float]:
    """Times that tensors of so many elements, each of this width, are read or written, forward and
    backward."""
    with ScoreCounter(elements) as ahead:
        loss = run()
    with ScoreCounter(elements) as back:
        loss.backward()
    return [each.bytes / elements / width for each in (ahead, back)]


_WIDTHS = {"fp32": 4, "bf16": 2, "autocast": 2}


def list_gpt2() -> dict[str, Any]:
    """Of GPT-2 in each precision, with and without dropout: passes of scores, bytes of its GELU,
    and kernels."""
    rows: dict[str, Any] = {}
    for precision, width in _WIDTHS.items():
        for rate in (0.0, 0.1):
            scores, inner = (count_gpt2(precision, rate, each) for each in (SCORES, INNER))
            rows[f"{precision} {rate}"] = {
                "scores": [each / width for each in scores],
                "inner": inner,
                "kernels": count_kernels_of_gpt2(precision, rate),
            }
    return rows


if __name__ == "__main__":
    found = {
        "plain": count(build_llama(torch.float32), 4),
        "cast": count(build_llama(torch.bfloat16), 2),
        "autocast": count(build_llama(torch.float32, autocast=True), 2),
        "sloped": count(attend_sloped(torch.bfloat16), 2),
    }
    print(json.dumps({"scores": found, "gpt2": list_gpt2()}))
