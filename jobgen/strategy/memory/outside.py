"""Bytes outside of torch's tensors: CUDA's context, NCCL, the allocator's cache; and the node's."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import FRAGMENTED, GIB
from jobgen.strategy.memory.memory_states import (
    GpuStates,
    PipelineStage,
    count_graded,
    count_shards,
    divide_states,
    list_stages,
)
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS, Offloaded

CONTEXT = 0.5 * GIB
"""Of a process that has run a kernel, with lazy loading (0.47 GiB seen on an A100:
stas00/ml-engineering, debug/nvidia-debug.md)."""
EAGER_CONTEXT = 1573 / 1024 * GIB
"""The same where all kernels are loaded at once, as torch before 1.13 does."""
CHANNEL = 3.5 * (524_288 + 4_915_200 + 4_194_304)
"""Of one channel of an NCCL communicator: a ring's and a tree's connections, and a buffer for each
of three protocols (NCCL, src/init.cc ``computeBuffSizes`` and src/include/device.h). A communicator
of 24 channels is seen to take 1 to 1.5 GiB with NCCL's kernels."""
KERNELS = 0.45 * GIB
"""Of NCCL's kernels, once (0.55 to 2.00 GiB at the first collective, stas00/ml-engineering,
debug/nvidia-debug.md, without the context and one communicator)."""
CACHE = 0.1
"""What the allocator reserves above what is allocated at the peak, where sizes repeat from step to
step: the ends of its blocks of 2 and 20 MiB (torch, c10/cuda/CUDACachingAllocator.cpp). Logs that
print both show 3 to 10 %, and runs that report nvidia-smi and what is allocated have a ratio of
1.15 on one GPU and 1.25 on several in the median: beside CUDA and NCCL, that is the upper end."""
LOOSE = 1.0
"""The same of activations and logits whose lengths vary: the blocks of a short batch do not fit a
longer one, so that about a second set of them is held."""


def compute_context(setup: Setup) -> float:
    """CUDA and NCCL on one GPU."""
    count = count_communicators(setup)
    cuda = CONTEXT if setup.lazy_modules else EAGER_CONTEXT
    return cuda + (KERNELS if count else 0.0) + CHANNEL * setup.channels * count


def count_communicators(setup: Setup) -> int:
    """Groups of ranks that one rank belongs to: the world, and each axis that is smaller.

    Megatron and its like have one for tensor and pipeline together too, for the gradients' norm,
    and one for a tied embedding (megatron/core/parallel_state.py).
    """
    mesh = setup.mesh
    axes = (mesh.replicate, mesh.shard, mesh.tp, mesh.pp, mesh.cp, mesh.ep)
    split = [size for size in axes if size > 1]
    if not split:
        return 0
    if len(split) == 1:
        return 1
    both = mesh.tp > 1 and mesh.pp > 1
    tied = mesh.pp > 1 and setup.model.sizes.tied
    return 1 + len(split) + both + tied


def compute_cache(setup: Setup, allocated: float, activations: float, logits: float) -> float:
    """What the allocator holds and nothing uses.

    Logits in 16 bits leave a block behind that their fp32 copies do not fit into. Expandable
    segments have no ends that nothing fits into (torch, c10/cuda/CUDACachingAllocator.cpp,
    ``ExpandableSegment``): only the least is left between what is allocated.
    """
    narrow = logits / 6 if setup.loss == "plain" and setup.recipe.compute < 4 else 0.0
    loose = LOOSE * (activations + logits) if setup.loose else 0.0
    return get_cache_factor(setup) * allocated + narrow + loose


def get_cache_factor(setup: Setup) -> float:
    """What is reserved above what is allocated, as a part of it, where nothing else is known."""
    return FRAGMENTED - 1 if setup.expandable else CACHE


class NodeMemory(NamedTuple):
    """Bytes of one node's memory and disk."""

    host: float
    pinned: float
    nvme: float
    away: GpuStates = GpuStates(0.0, 0.0, 0.0, 0.0)
    """What of the states of its GPUs lies in ``host`` or ``nvme``. Gradients are fp32 there."""


_SPARE = 1.5
"""Buffers beside what is offloaded (DeepSpeed, runtime/zero/stage3.py,
``estimate_zero3_model_states_mem_needs``: additional_buffer_factor)."""


def compute_node_memory(setup: Setup) -> NodeMemory:
    """What offloading needs on every node: what its GPUs no longer hold, and room to work."""
    offload = setup.offload
    if not offload:
        return NodeMemory(0.0, 0.0, 0.0)
    ranks = min(setup.world_per_node, setup.mesh.world)
    away = max(
        (_away(setup, stage, ranks) for stage in list_stages(setup)), key=lambda held: held.total
    )
    pinned = away.grads + away.params
    if offload.to == "nvme":
        return NodeMemory(_SPARE * pinned, pinned, away.total, away)
    return NodeMemory(_SPARE * away.total, pinned, 0.0, away)


def _away(setup: Setup, stage: PipelineStage, ranks: int) -> GpuStates:
    """What these ranks would hold themselves. The optimizer's gradients come to it as fp32."""
    here = divide_states(setup, stage)
    all_ = divide_states(setup._replace(offload=Offloaded()), stage)
    grads = 0.0
    if setup.offload.optimizer:
        level = TRAITS[setup.strategy].stage
        grads = 4.0 * count_graded(setup, stage) / (count_shards(setup) if level else 1)
    return GpuStates(
        ranks * (all_.params - here.params),
        ranks * grads,
        ranks * (all_.master - here.master),
        ranks * (all_.moments - here.moments),
    )


def compute_checkpoint(setup: Setup) -> float:
    """Bytes of one whole checkpoint: parameters, their fp32 copy and the optimizer's state."""
    recipe = setup.recipe
    if setup.adapters is not None:
        return 0.0
    return setup.model.count * (recipe.params + recipe.master + recipe.moments)
