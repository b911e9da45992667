"""What every operation of a step costs: FLOPs of products, bytes of everything, by segment."""

from __future__ import annotations

from typing import Any

from .model_units import TAKES_MEMORY, list_tensors
from .recomputation import Recomputation

FLOPS = "product", "attention"
_KNOWN_LIBRARIES = ("aten", "prim", "prims")
_RECURRENT = ("mkldnn_rnn_layer", "_cudnn_rnn", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell")
"""Products inside that torch's counter has no formula for."""
_GATHERING = ("embedding", "index_select", "gather", "index", "nll_loss_forward")
"""They read as much of their first tensor as they write."""
_BACKWARD_PRODUCTS = 5 / 2
"""Products of attention backward for each one forward: two make the scores' gradients, two those of
keys and queries, one the scores again (arXiv 2307.08691, algorithm 2): a fifth is recomputation."""


def make_counter(chain: Any) -> Any:
    """A mode that adds up what is computed in each segment of a chain, forward and backward, and
    the FLOPs of what is computed again."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    base: Any = TorchDispatchMode

    class Counter(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.backward = False
            self.recomputation, self.recomputed = Recomputation(torch), 0
            self.rows: dict[tuple[int, bool], dict[tuple[Any, ...], int]] = {}
            self.uncounted: set[str] = set()

        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            out = func(*args, **kwargs)
            name = func._overloadpacket.__name__
            inputs, outputs = list_tensors(torch, (args, kwargs)), list_tensors(torch, out)
            chain.see(inputs, outputs)
            if makes_nothing(func, inputs, outputs):
                return out
            if func.namespace not in _KNOWN_LIBRARIES or name.startswith(_RECURRENT):
                self.uncounted.add(f"{func.namespace}::{name}")
            width = inputs[0].element_size() if inputs else outputs[0].element_size()
            kind, flops = count_flops(flop_registry, func, args, kwargs, out)
            if self.backward:
                scores = flops // 5 if kind == "attention" else 0
                self.recomputed += flops if self.recomputation.is_running else scores
            if name in _GATHERING:
                inputs = inputs[1:] + outputs
            row = kind, width, flops, sum(map(span, inputs)), sum(map(span, outputs))
            rows = self.rows.setdefault((chain.segment, self.backward), {})
            rows[row] = rows.get(row, 0) + 1
            return out

    return Counter()


def makes_nothing(func: Any, inputs: list[Any], outputs: list[Any]) -> bool:
    """Whether the operation only asks something, views what is there, or takes memory."""
    writes = any(each.alias_info and each.alias_info.is_write for each in func._schema.arguments)
    there = {each.untyped_storage()._cdata for each in inputs}
    new = any(each.untyped_storage()._cdata not in there for each in outputs)
    return not (writes or new) or func._overloadpacket.__name__ in TAKES_MEMORY


def count_flops(registry: Any, func: Any, args: Any, kwargs: Any, out: Any) -> tuple[str, int]:
    """The kind of an operation, and its FLOPs."""
    name = func._overloadpacket.__name__
    if name.startswith("_scaled_dot_product"):
        return "attention", count_attention(name, args, kwargs)
    formula = registry.get(func._overloadpacket)
    if formula is None:
        return "other", 0
    return "product", int(formula(*args, **kwargs, out_val=out))


def span(tensor: Any) -> int:
    """Bytes of the memory that a tensor's elements lie in, each once."""
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def count_attention(name: str, args: Any, kwargs: Any) -> int:
    """FLOPs of the products with queries, keys and values; of a causal mask's half if they are as
    many (arXiv 2307.08691, section 3.1), which torch's counter does not see."""
    backward = name.endswith("_backward") or "_backward_" in name
    query, key, value = args[1:4] if backward else args[:3]
    batch, heads, rows, width = query.shape
    columns = key.shape[2]
    flops = 2 * batch * heads * rows * columns * (width + value.shape[3])
    causal = kwargs.get("is_causal", any(each is True for each in args))
    if causal and rows == columns:
        flops //= 2
    return int(flops * _BACKWARD_PRODUCTS) if backward else flops


def sum_costs(rows: dict[tuple[Any, ...], int]) -> list[list[Any]]:
    """A row for each kind of product, and one for all that only reads and writes: kind, bytes of an
    element, FLOPs, bytes read, bytes written, and how many there are."""
    found: list[list[Any]] = []
    rest = [0, 0, 0]
    for (kind, width, flops, read, written), times in rows.items():
        if kind in FLOPS:
            found.append([kind, width, flops, read, written, times])
        else:
            rest = [rest[0] + read * times, rest[1] + written * times, rest[2] + times]
    return [*found, ["other", 0, 0, *rest]]


def list_segments(counter: Any, count: int) -> dict[str, Any]:
    """What each segment computes, forward and backward: different costs once, and which of them
    each segment has."""
    kinds: list[Any] = []
    order = []
    for segment in range(count):
        both = [sum_costs(counter.rows.get((segment, back), {})) for back in (False, True)]
        if both not in kinds:
            kinds.append(both)
        order.append(kinds.index(both))
    uncounted = sorted(counter.uncounted)
    return {
        "kinds": kinds,
        "order": order,
        "uncounted": uncounted,
        "recomputed": counter.recomputed,
    }
