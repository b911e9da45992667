"""The estimator of torchtitan's pull request 3798, on graphs of torchtitan's own tracer.

It walks the graph of the forward pass, the loss and the backward pass on fake tensors, and adds the
optimizer's states. The traced program is Llama as transformers has it, under SimpleFSDP where it is
sharded, on a process group without other ranks: the graph is that before torchtitan's passes, which
need a GPU. Layers are alike, so that each adds as much: graphs of a few are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import torch
from planner_checkouts import load_file, stand_in
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import Offloaded

_PACKAGE = "torchtitan.experiments.graph_trainer"
_TRACED = (2, 4)
"""Layers of the graphs from which those of all layers follow."""
_PIECES = {"plain": 1, "compiled": 1, "chunked": 8}
"""Loss → pieces of the sequence; 8 are torchtune's (modules/loss/cross_entropy_loss.py)."""
_MOMENTS = {8: "fused", 4: "fused_opt_states_bf16"}
"""Bytes of AdamW's moments for each parameter → torchtitan's implementation."""


class Program(NamedTuple):
    """What a graph depends on."""

    layers: int
    sizes: tuple[tuple[str, Any], ...]
    ranks: int
    batch: tuple[int, int]
    recompute: str
    pieces: int
    moments: int


def load_titan(checkout: Path) -> Callable[[Setup], float | None]:
    """The estimate of a rank, in bytes. ``checkout`` is the pull request's."""
    # its package needs triton; of common_utils only the tag of a backward node is needed
    stand_in(f"{_PACKAGE}.common_utils", {"_is_backward_node": _is_backward})
    stand_in("torchtitan.protocols.module", {"Module": nn.Module})
    names = ("dynamic_shapes", "make_fx_tracer", "memory_estimator", "simple_fsdp")
    folder = _PACKAGE.replace(".", "/")
    files = {
        name: load_file(checkout, f"{folder}/{name}.py", f"{_PACKAGE}.{name}") for name in names
    }
    count_bytes = cache(partial(_extend, files))

    def estimate(setup: Setup) -> float | None:
        program = _describe(setup)
        return count_bytes(program) if program else None

    return estimate


def _is_backward(node: torch.fx.Node) -> bool:
    return bool(node.meta.get("autograd_backward"))


def _describe(setup: Setup) -> Program | None:
    """The program of a run; None where it is none that the estimator is made for."""
    sizes, mesh, recipe = setup.model.sizes, setup.mesh, setup.recipe
    known = (
        setup.framework in {"torchtitan", "torchtune"}
        and setup.loss in _PIECES
        and setup.adapters is None
        and sizes.experts is None
        and setup.offload == Offloaded()
        and not setup.step_in_backward
        and mesh.tp * mesh.pp * mesh.cp * mesh.replicate == 1
        and recipe.moments in _MOMENTS
        and recipe.master == 0
    )
    if not known:
        return None
    shape = {
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.ffn,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "vocab_size": sizes.vocab,
        "tie_word_embeddings": sizes.tied,
    }
    batch = setup.batch.micro, setup.seq
    more = setup.recompute, _PIECES[setup.loss], int(recipe.moments)
    return Program(sizes.layers, tuple(shape.items()), mesh.shard, batch, *more)


def _extend(files: dict[str, ModuleType], program: Program) -> float:
    """The estimate of all layers, from graphs of a few."""
    few, more = _TRACED
    least, larger = (_estimate(files, program._replace(layers=layers)) for layers in _TRACED)
    return least + (larger - least) / (more - few) * (program.layers - few)


def _estimate(files: dict[str, ModuleType], program: Program) -> float:
    """The peak of the graph, and the optimizer's states of the rank's own parameters: the estimator
    counts those of all ranks."""
    model = _build(files["simple_fsdp"], program)
    tokens = torch.zeros(program.batch, dtype=torch.long)

    def step(inputs: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        logits = model(input_ids=inputs, position_ids=positions, use_cache=False).logits
        loss = torch.zeros(())
        pieces = zip(*(x.chunk(program.pieces, 1) for x in (logits, inputs)), strict=True)
        for piece, labels in pieces:
            loss = loss + nn.functional.cross_entropy(piece.float().flatten(0, 1), labels.flatten())
        return loss, *torch.autograd.grad(loss, list(model.parameters()))

    traced = files["make_fx_tracer"].minimal_fx_tracer(step, module=model)(tokens, tokens.clone())
    estimator = files["memory_estimator"]
    peak = estimator.estimate_peak_memory(traced.gm, num_state_inputs=traced.num_static_inputs)
    group = SimpleNamespace(optimizer_name="AdamW", optimizer_kwargs={})
    config = SimpleNamespace(param_groups=[group], implementation=_MOMENTS[program.moments])
    own = SimpleNamespace(parameters=lambda: map(_get_local, model.parameters()))
    return float(peak.peak_bytes + estimator.optimizer_state_bytes(config, own))


def _get_local(parameter: nn.Parameter) -> torch.Tensor:
    return parameter.to_local() if hasattr(parameter, "to_local") else parameter


def _build(fsdp: ModuleType, program: Program) -> nn.Module:
    """The model of one rank, its memory reserved and never written."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device("meta"):
        sizes = {**dict(program.sizes), "num_hidden_layers": program.layers}
        config = LlamaConfig(**sizes, attn_implementation="sdpa")
        model = LlamaForCausalLM(config).train()
    for layer in model.model.layers:
        if program.recompute != "none":
            layer.forward = partial(_recompute, layer.forward, program.recompute)
    if program.ranks == 1:
        model = model.to(torch.bfloat16).to_empty(device="cpu")
        model.tie_weights()
        return model
    for name, buffer in list(model.named_buffers()):
        owner, _, last = name.rpartition(".")
        model.get_submodule(owner).register_buffer(last, torch.empty(buffer.shape))
    _shard(model, fsdp, program.ranks)
    return model


def _shard(model: nn.Module, fsdp: ModuleType, ranks: int) -> None:
    """SimpleFSDP's ``data_parallel`` for parameters of which only this rank's part exists."""
    from torch.distributed import destroy_process_group, init_process_group, is_initialized
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if is_initialized():
        destroy_process_group()
    init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    mesh, placement = init_device_mesh("cpu", (ranks,)), (Shard(0),)
    policy = fsdp.MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    for module in list(model.modules()):
        own = dict(module.named_parameters(recurse=False))
        for name, parameter in own.items():
            local = torch.empty(parameter.shape[0] // ranks, *parameter.shape[1:])
            shard = DTensor.from_local(local, mesh, placement, run_check=False)
            module.register_parameter(name, nn.Parameter(shard))
        gather = fsdp.ReplicateComputation(mesh, placement, "fully_shard", mp_policy=policy)
        fsdp._register_parametrization(module, list(own), gather)


def _recompute(forward: Callable[..., Any], how: str, *inputs: Any, **more: Any) -> Any:
    """A layer that is checkpointed: whole, or as torchtitan's selective checkpointing does."""
    chosen: dict[str, Any] = {}
    if how == "selective":
        chosen["context_fn"] = partial(_select)
    return checkpoint(partial(forward, **more), *inputs, use_reentrant=False, **chosen)


def _select() -> tuple[Any, Any]:
    """torchtitan, distributed/activation_checkpoint.py: attention, reduced gradients and every
    second product are kept."""
    ops = torch.ops
    kept = {
        ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
        ops._c10d_functional.reduce_scatter_tensor.default,
    }
    numbers: dict[bool, Iterator[int]] = {False: count(1), True: count(1)}

    def choose(context: Any, op: object, *_: object, **__: object) -> CheckpointPolicy:
        if op is ops.aten.mm.default:
            save = next(numbers[context.is_recompute]) % 2 == 1
        else:
            save = op in kept
        return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(choose)
