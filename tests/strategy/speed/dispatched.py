"""What one layer of a Llama and of Megatron-LM's GPT starts in its forward pass, as JSON:
``dispatched.py [RANKS]``, with a GPT whose experts lie on so many ranks.

Operations that reach torch's dispatcher and make something new: no views, no empty memory.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

WIDTH, WORDS, TOKENS = 64, 64, 32
_NOTHING = ("detach", "empty", "empty_like", "empty_strided", "is_same_size", "new_empty")


class Counter(TorchDispatchMode):
    """Counts operations."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count this one."""
        aliases = (each.alias_info for each in func._schema.returns)
        view = any(alias is not None and not alias.is_write for alias in aliases)
        self.count += not view and not func._schema.name.endswith(_NOTHING)
        return func(*args, **(kwargs or {}))


class Stream:
    """A stream without a GPU, and its events."""

    def wait_stream(self, _other: object) -> None:
        """Nothing is ever late."""

    def record_event(self) -> Stream:
        """Itself."""
        return self

    def synchronize(self) -> None:
        """Everything has been done."""


def build_llama(layers: int) -> Callable[[], Tensor]:
    """The loss of transformers' Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=WORDS,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16).train()
    words = torch.randint(0, WORDS, (1, TOKENS))
    return lambda: model(input_ids=words, labels=words).loss


def build_megatron(layers: int, local: int = 0, ranks: int = 1) -> Callable[[], Tensor]:
    """The losses of Megatron-LM's GPT, without kernels of CUDA; with so many experts on a rank."""
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.transformer import TransformerConfig

    config = TransformerConfig(
        num_layers=layers,
        hidden_size=WIDTH,
        num_attention_heads=4,
        use_cpu_initialization=True,
        params_dtype=torch.bfloat16,
        bf16=True,
        bias_dropout_fusion=False,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        gradient_accumulation_fusion=False,
        persist_layer_norm=False,
        **(_route(local, ranks) if local else {}),
    )
    spec = get_gpt_layer_local_spec(num_experts=local * ranks or None, normalization="LayerNorm")
    model = GPTModel(config, spec, WORDS, TOKENS).to(torch.bfloat16).train()
    words = torch.randint(0, WORDS, (1, TOKENS))
    places = torch.arange(TOKENS)[None]
    mask = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return lambda: model(words, places, mask, labels=words)


def _route(local: int, ranks: int) -> dict[str, Any]:
    """Arguments of a layer with experts, whose losses are kept for one model only."""
    from megatron.core.transformer.moe import moe_utils

    moe_utils.clear_aux_losses_tracker()
    moe_utils.get_moe_layer_wise_logging_tracker().clear()
    return {
        "num_moe_experts": local * ranks,
        "expert_model_parallel_size": ranks,
        "moe_router_topk": 2,
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": 1e-3,
        "moe_token_dispatcher_type": "alltoall",
        "add_bias_linear": False,
    }


def start_megatron(ranks: int = 1) -> None:
    """One rank, of some that are pretended; streams and dropout that need no GPU."""
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.transformer import dot_product_attention
    from megatron.core.transformer.moe import moe_utils, token_dispatcher

    class Tracker:
        @contextmanager
        def fork(self, *_: Any) -> Iterator[None]:
            yield

    def copy(given: Any, as_numpy: bool = False, **_: Any) -> Any:
        return given.tolist() if as_numpy and given is not None else given

    dist.init_process_group("fake", rank=0, world_size=ranks, store=FakeStore())
    parallel_state.initialize_model_parallel(
        create_gloo_process_groups=False, expert_model_parallel_size=ranks
    )
    tensor_parallel.random.get_cuda_rng_tracker = Tracker
    tensor_parallel.get_cuda_rng_tracker = Tracker
    dot_product_attention.tensor_parallel.get_cuda_rng_tracker = Tracker
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.Stream = torch.cuda.current_stream = Stream
    torch.cuda.stream = nullcontext
    token_dispatcher.maybe_move_tensor_to_cpu = copy
    moe_utils.te_general_gemm = None


def count(build: Callable[[int], Callable[[], Tensor]]) -> int:
    """Of one layer: of two, less of one."""
    found = []
    for layers in (1, 2):
        run = build(layers)
        with Counter() as counter:
            run()
        found.append(counter.count)
    return found[1] - found[0]


if __name__ == "__main__":
    ranks = int(sys.argv[1]) if sys.argv[1:] else 1
    start_megatron(ranks)
    found = {"llama": count(build_llama), "megatron": count(build_megatron)}
    for local in (4, 8):
        found[f"megatron, {local} experts"] = count(
            partial(build_megatron, local=local, ranks=ranks)
        )
    print(json.dumps(found))
    dist.destroy_process_group()
