"""Stand-ins for kernels that only GPUs have: each keeps what the autograd function of the package
saves, and returns a tensor of the right shape and type.

flash-linear-attention, fla/ops/gated_delta_rule/chunk.py and fla/ops/kda/chunk.py; causal-conv1d,
causal_conv1d_interface.py; mamba, mamba_ssm/ops/triton/ssd_combined.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

_CHUNK = 64


class _Delta(torch.autograd.Function):
    """``ChunkGatedDeltaRuleFunction``, and ``ChunkKDAFunction`` where each channel has a decay."""

    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
        q, k, v = (each.contiguous() for each in (q, k, v))
        norms = [torch.empty(*each.shape[:3], dtype=torch.float32) for each in (q, k)]
        scores = [v.new_empty(*v.shape[:3], _CHUNK) for _ in range(1 + (g.dim() == 4))]
        given = [g] if g.dim() == 4 else []
        ctx.save_for_backward(
            torch.empty_like(q),
            torch.empty_like(k),
            v,
            beta,
            torch.empty_like(g.float()),
            *norms,
            *scores,
            *given,
        )
        ctx.shapes = [(each.shape, each.dtype) for each in (q, k, v, g, beta)]
        return torch.empty_like(v)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return tuple(torch.empty(shape, dtype=dtype) for shape, dtype in ctx.shapes)


class _Convolution(torch.autograd.Function):
    """``CausalConv1dFn``, which computes its activation again."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any) -> Any:
        ctx.save_for_backward(x, weight, bias)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return tuple(None if each is None else torch.empty_like(each) for each in ctx.saved_tensors)


class _Mamba(torch.autograd.Function):
    """``MambaSplitConv1dScanCombinedFn``, which has the last matrix in it."""

    @staticmethod
    def forward(ctx: Any, mixed: Any, norm: Any, last: Any, groups: int, states: int) -> Any:
        out = mixed.new_empty(*mixed.shape[:2], last.shape[1])
        sums = torch.empty(*mixed.shape[:2], groups, dtype=torch.float32)
        ctx.states = states
        ctx.save_for_backward(mixed, out, sums, norm, last)
        return torch.nn.functional.linear(out, last)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        mixed, out, _, norm, last = ctx.saved_tensors
        again = mixed.new_empty(*mixed.shape[:2], mixed.shape[2] - out.shape[2])
        flowing = [torch.empty_like(out) for _ in range(2)]
        flowing += [torch.empty(ctx.states, dtype=torch.float32) for _ in range(2)]
        grads = [None if each is None else torch.empty_like(each) for each in (mixed, norm, last)]
        del again, flowing
        return (*grads, None, None)


def _compute_delta(query: Any, key: Any, value: Any, g: Any, beta: Any, **_: Any) -> Any:
    return _Delta.apply(query, key, value, g, beta), None


def _convolve(hidden: Any, weight: Any, bias: Any = None, **_: Any) -> Any:
    return _Convolution.apply(hidden, weight, bias)


def _scan(mixed: Any, *_: Any, rmsnorm_weight: Any, outproj_weight: Any, **words: Any) -> Any:
    batch, length, width = mixed.shape
    inner, groups = outproj_weight.shape[1], words["ngroups"]
    state = (width - 2 * inner - inner // words["headdim"]) // (2 * groups)
    states = batch * length // words["chunk_size"] * inner * state
    return _Mamba.apply(mixed, rmsnorm_weight, outproj_weight, groups, states)


_KERNELS = {
    "torch_chunk_gated_delta_rule": _compute_delta,
    "chunk_kimi_delta_attention": _compute_delta,
    "causal_conv1d_fn": _convolve,
    "mamba2_split_conv1d_scan_combined": _scan,
}


@contextmanager
def install_kernels(kind: str) -> Iterator[None]:
    """Put the stand-ins where a model of this type calls the kernels."""
    module = import_module(f"transformers.models.{kind}.modeling_{kind}")
    with ExitStack() as stack:
        for name, kernel in _KERNELS.items():
            if hasattr(module, name):
                stack.enter_context(patch.object(module, name, kernel))
        yield
