"""Bytes of each logit that torch's cross-entropy needs at the most, forward and backward, where
ranks share the vocabulary (``loss_parallel``): JSON. The logits are fp32 already."""

from __future__ import annotations

import json
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import init_device_mesh
from torch.distributed.tensor.parallel import loss
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

TOKENS, VOCAB = 64, 4096


class Live(TorchDispatchMode):
    """Bytes of all storages that operations have made and that are still there."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in torch.utils._pytree.tree_leaves(out):
            if isinstance(each, torch.Tensor) and type(each) is torch.Tensor:
                storage = each.untyped_storage()
                if id(storage) not in self.sizes:
                    self.sizes[id(storage)] = storage.nbytes()
                    weakref.finalize(storage, self.sizes.pop, id(storage), None)
        self.most = max(self.most, sum(self.sizes.values()))
        return out


dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
mesh = init_device_mesh("cpu", (2,))
local = torch.randn(TOKENS, VOCAB)
target = torch.randint(VOCAB, (TOKENS,))
with Live() as live:
    ahead = loss._log_softmax(local, 1, half_to_float=False, mesh=mesh, mesh_dim=0)
    forward = live.most
    live.most = 0
    back = loss._nll_loss_and_log_softmax_backward(
        torch.ones(()),
        ahead,
        target,
        None,
        1,
        -100,
        torch.tensor(float(TOKENS)),
        torch.Size((TOKENS, 2 * VOCAB)),
        1,
        mesh,
        0,
    )
print(json.dumps({"forward": forward / local.numel(), "backward": live.most / local.numel()}))
