"""What FSDP keeps in the backward pass, and after one of ``no_sync``, and in which order gradients
are reduced: a line of JSON for each case.

Ranks are pretended (torch's fake process group): nothing is sent, and what is kept is real.
"""

from __future__ import annotations

import functools
import json
import os
import warnings
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import (
    _or_policy,
    lambda_auto_wrap_policy,
    transformer_auto_wrap_policy,
)
from torch.multiprocessing.reductions import StorageWeakRef
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

LAYERS, WIDTH, RANKS = 8, 16, 4
ENDS = ("embed", "head")
WORDS = torch.arange(6).view(1, 6)
inputs: list[StorageWeakRef] = []
"""Of layers that were computed again."""
counts: list[int] = []


class Counted(torch.autograd.Function):
    """Nothing, and in the backward pass a count of the inputs that are alive."""

    @staticmethod
    def forward(_ctx: object, x: Tensor) -> Tensor:
        """The same values."""
        return x.clone()

    @staticmethod
    def backward(_ctx: object, grad: Tensor) -> Tensor:
        """The same gradient."""
        counts.append(sum(not ref.expired() for ref in inputs))
        return grad


class Layer(nn.Module):
    """A linear layer with an adapter."""

    def __init__(self, *, frozen: bool) -> None:
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(WIDTH, 2, bias=False)
        self.up = nn.Linear(2, WIDTH, bias=False)
        self.base.requires_grad_(requires_grad=not frozen)

    def forward(self, x: Tensor) -> Tensor:
        """A residual step."""
        if torch.is_grad_enabled():
            inputs.append(StorageWeakRef(x.untyped_storage()))
        out: Tensor = x + torch.relu(self.base(Counted.apply(x)) + self.up(self.down(x)))
        return out


class Net(nn.Module):
    """Layers between an embedding and an output layer, which checkpoints them unless a wrapper
    does."""

    def __init__(self, *, frozen: bool, reentrant: bool, wrapped: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, WIDTH)
        self.layers = nn.ModuleList(Layer(frozen=frozen) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 7)
        self.reentrant, self.wrapped = reentrant, wrapped

    def forward(self, words: Tensor) -> Tensor:
        """A loss."""
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x) if self.wrapped else checkpoint(layer, x, use_reentrant=self.reentrant)
        out: Tensor = self.head(x).sum()
        return out


def is_adapter(module: nn.Module) -> bool:
    """What peft's ``fsdp_auto_wrap_policy`` wraps by itself."""
    return isinstance(module, nn.Linear) and bool(module.weight.requires_grad)


def shard(net: Net, kind: str, *, frozen: bool) -> nn.Module:
    """The network under FSDP1 or FSDP2."""
    if kind == "fsdp2":
        for layer in net.layers:
            fully_shard(layer)
        return fully_shard(net)
    layers = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Layer})
    adapters = functools.partial(lambda_auto_wrap_policy, lambda_fn=is_adapter)
    policies = [layers, adapters] if frozen else [layers]
    return FullyShardedDataParallel(
        net,
        auto_wrap_policy=functools.partial(_or_policy, policies=policies),
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )


def checkpoint_inside(net: nn.Module) -> None:
    """Wrap the layers of FSDP's units, as AnswerDotAI/fsdp_qlora does after it has made them."""
    wrap = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.REENTRANT)
    apply_activation_checkpointing(
        net, checkpoint_wrapper_fn=wrap, check_fn=lambda module: isinstance(module, Layer)
    )


def count_alive(kind: str, *, frozen: bool, reentrant: bool, inside: bool = False) -> int:
    """The most inputs of recomputed layers that are alive at once."""
    inputs.clear()
    counts.clear()
    net = shard(Net(frozen=frozen, reentrant=reentrant, wrapped=inside), kind, frozen=frozen)
    if inside:
        checkpoint_inside(net)
    loss = net(WORDS)
    inputs.clear()
    loss.backward()
    return max(counts)


def count_whole(kind: str, narrow: torch.dtype | None) -> dict[str, int]:
    """Bytes of gradients after a micro-batch that is not reduced, and parameters of the model."""
    plain = Net(frozen=False, reentrant=False)
    elements = sum(p.numel() for p in plain.parameters())
    if kind == "fsdp1":
        precision = MixedPrecision(narrow, torch.float32)
        sharded: nn.Module = FullyShardedDataParallel(
            plain,
            auto_wrap_policy=functools.partial(
                transformer_auto_wrap_policy, transformer_layer_cls={Layer}
            ),
            mixed_precision=precision if narrow else None,
            device_id=torch.device("cpu"),
        )
        with sharded.no_sync():  # type: ignore[operator]
            sharded(WORDS).backward()
        grads = [unit._flat_param.grad for unit in FullyShardedDataParallel.fsdp_modules(sharded)]
        return {"elements": elements, "bytes": sum(g.nbytes for g in grads if g is not None)}
    policy = MixedPrecisionPolicy(narrow, torch.float32 if narrow else None)
    for layer in plain.layers:
        fully_shard(layer, mp_policy=policy)
    sharded = fully_shard(plain, mp_policy=policy)
    sharded.set_requires_gradient_sync(requires_gradient_sync=False)
    sharded(WORDS).backward()
    held = 0
    for module in sharded.modules():
        group = getattr(module, "_get_fsdp_state", lambda: None)()
        for param in group._fsdp_param_group.fsdp_params if group else ():
            grad = param.unsharded_accumulated_grad
            grad = param.unsharded_param.grad if grad is None else grad
            held += grad.nbytes if grad is not None else 0
    return {"elements": elements, "bytes": held}


class Reductions(TorchDispatchMode):
    """Elements of each reduce-scatter's input, in the order in which they begin."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation, and keep its size."""
        if func is torch.ops.c10d._reduce_scatter_base_.default:
            self.sizes.append(args[1].numel())
        return func(*args, **(kwargs or {}))


def list_reductions(*, apart: bool) -> dict[str, list[int] | int]:
    """What FSDP2 reduces in a backward pass, where the embedding and the output layer are one unit
    or two."""
    net = Net(frozen=False, reentrant=False)
    sizes = {name: sum(p.numel() for p in getattr(net, name).parameters()) for name in ENDS}
    for unit in (*net.layers, *((net.embed, net.head) if apart else ())):
        fully_shard(unit)
    loss = fully_shard(net)(WORDS)
    with Reductions() as reductions:
        loss.backward()
    return {"reduced": reductions.sizes, **sizes}


class Joins(TorchDispatchMode):
    """Elements of the gradients that are joined to one, and of that one, in the order of joins."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[tuple[int, int]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the operation, and keep its sizes."""
        out = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.cat.default:
            self.sizes.append((sum(piece.numel() for piece in args[0]), out.numel()))
        return out


def join_gradients(*, frozen: bool) -> dict[str, Any]:
    """What FSDP1 joins in a second micro-batch that is not reduced, where a layer is a unit; the
    bytes of gradients after it, and whether those of frozen weights are computed."""
    net = Net(frozen=frozen, reentrant=False)
    for end in ENDS:
        getattr(net, end).requires_grad_(requires_grad=not frozen)
    unit, root = (
        sum(p.numel() for part in parts for p in part.parameters())
        for parts in ((net.layers[0],), (net.embed, net.head))
    )
    sharded = FullyShardedDataParallel(
        net,
        auto_wrap_policy=functools.partial(
            transformer_auto_wrap_policy, transformer_layer_cls={Layer}
        ),
        use_orig_params=True,
        device_id=torch.device("cpu"),
    )
    with sharded.no_sync():
        sharded(WORDS).backward()
        loss = sharded(WORDS)
        with Joins() as joins:
            loss.backward()
    flat = [each._flat_param.grad for each in FullyShardedDataParallel.fsdp_modules(sharded)]
    held = sum(grad.nbytes for grad in flat if grad is not None)
    computed = all(bool(grad[: WIDTH * WIDTH].any()) for grad in flat[1:])
    return {"joined": joins.sizes, "unit": unit, "root": root, "held": held, "computed": computed}


def main() -> None:
    """Every case, with whether parameters are frozen and checkpointing is reentrant."""
    warnings.simplefilter("ignore")
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    dist.init_process_group("fake", rank=0, world_size=RANKS, store=FakeStore())
    for kind in ("fsdp1", "fsdp2"):
        for frozen in (True, False):
            for reentrant in (True, False):
                alive = count_alive(kind, frozen=frozen, reentrant=reentrant)
                case = {"kind": kind, "frozen": frozen, "reentrant": reentrant, "alive": alive}
                print(json.dumps(case), flush=True)
    for frozen in (True, False):
        alive = count_alive("fsdp1", frozen=frozen, reentrant=True, inside=True)
        print(json.dumps({"frozen": frozen, "inside": True, "alive": alive}), flush=True)
    for kind in ("fsdp1", "fsdp2"):
        for narrow in (torch.bfloat16, None):
            case = {"kind": kind, "narrow": narrow is not None, **count_whole(kind, narrow)}
            print(json.dumps(case), flush=True)
    for frozen in (True, False):
        print(json.dumps({"frozen": frozen, **join_gradients(frozen=frozen)}), flush=True)
    for apart in (False, True):
        print(json.dumps({"apart": apart, **list_reductions(apart=apart)}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
