"""One way to train one model on given ranks: what its memory and its speed are asked about."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jobgen.strategy.shapes.values import Model
from jobgen.strategy.values import Batch, Mesh, Offloaded


class Recipe(NamedTuple):
    """Bytes of one element of each kind of state, and of what is computed."""

    name: str
    params: float
    grads: float
    master: float
    """An fp32 copy of the parameters, where parameters are narrower."""
    moments: float
    """What the optimizer keeps of each element."""
    compute: int = 2
    """Bytes of activations and of gathered parameters."""
    reduce: int = 2
    """Bytes of a gradient on the network."""
    note: str = ""
    """Where the numbers come from."""

    @property
    def total(self) -> float:
        """Bytes of all states for one trained parameter."""
        return self.params + self.grads + self.master + self.moments


class Adapters(NamedTuple):
    """LoRA: what is trained beside frozen parameters."""

    rank: int
    targets: tuple[str, ...]
    """Names of the tensors that have adapters; empty means every linear layer."""
    bits: int = 16
    """Of a frozen linear layer's element: 4 for QLoRA."""
    whole: tuple[str, ...] = ()
    """Kinds of tensors that are trained whole: embedding, head."""


class Setup(NamedTuple):
    """What is trained, how it is divided, and what is kept where."""

    model: Model
    strategy: str
    """Its word in job.yaml."""
    mesh: Mesh
    batch: Batch
    seq: int
    recipe: Recipe
    recompute: Literal["none", "selective", "full"] = "none"
    offload: Offloaded = Offloaded()
    offload_activations: bool = False
    reshard: bool | int = True
    """fsdp2: ``reshard_after_forward``."""
    framework: str = "torch"
    flash: bool = True
    """Attention without the matrix of scores in memory."""
    compiled: bool = False
    fused_loss: bool = False
    """The loss is computed in chunks: no logits of the whole sequence stay in memory."""
    sequence_parallel: bool = False
    """With tp: norms and dropouts are divided along the sequence."""
    chunks: int = 1
    """Pipeline: interleaved parts of the model that one stage holds."""
    adapters: Adapters | None = None
    step_in_backward: bool = False
    """The optimizer's step is done parameter by parameter while gradients come."""
    world_per_node: int = 8
    """Ranks of one node."""

    @property
    def tokens(self) -> int:
        """Tokens of one rank in one micro-batch, before tp divides them."""
        return self.batch.micro * self.seq // self.mesh.cp
