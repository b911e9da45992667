"""A strategy that has been decided: values only, in the words of the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.errors import Place
    from jobgen.model.parallel import Parallel
    from jobgen.model.profiling import TracedSteps

Family = Literal["ddp", "fsdp", "fsdp2", "zero", "3d"]


class Trait(NamedTuple):
    """What a strategy is, whatever framework runs it."""

    title: str
    family: Family
    stage: int
    """What is sharded: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters."""
    frameworks: tuple[str, ...]
    """Those whose own words can say it."""
    axes: tuple[str, ...] = ()
    """Degrees that go with it in some framework: tp, pp, cp, ep."""

    @property
    def shards_gradients(self) -> bool:
        """Whether each rank keeps a part of the gradients."""
        return self.stage >= 2

    @property
    def shards_parameters(self) -> bool:
        """Whether each rank keeps a part of the parameters, and gathers the others."""
        return self.stage >= 3


_ALL = ("torch", "accelerate", "hf-trainer", "lightning", "none")
_ZERO = ("deepspeed", "accelerate", "hf-trainer", "lightning", "none")

TRAITS: dict[str, Trait] = {
    "ddp": Trait("DDP", "ddp", 0, (*_ALL, "deepspeed", "megatron", "torchtitan")),
    "fsdp": Trait("FSDP FULL_SHARD", "fsdp", 3, _ALL),
    "fsdp-grad-op": Trait("FSDP SHARD_GRAD_OP", "fsdp", 2, _ALL),
    "fsdp-no-shard": Trait("FSDP NO_SHARD", "fsdp", 0, _ALL),
    "fsdp-hybrid": Trait("FSDP HYBRID_SHARD", "fsdp", 3, (*_ALL, "torchtitan")),
    "fsdp2": Trait("FSDP2", "fsdp2", 3, (*_ALL, "torchtitan"), ("tp", "pp", "cp", "ep")),
    "zero1": Trait("ZeRO-1", "zero", 1, (*_ZERO, "megatron"), ("tp", "pp", "cp", "ep")),
    "zero2": Trait("ZeRO-2", "zero", 2, _ZERO),
    "zero3": Trait("ZeRO-3", "zero", 3, _ZERO),
    "3d": Trait(
        "3D parallel",
        "3d",
        0,
        ("torch", "megatron", "torchtitan", "none"),
        ("tp", "pp", "cp", "ep"),
    ),
}
"""Every strategy by its word in job.yaml. Which framework knows which: torch 2.13, accelerate 1.15,
transformers 5, DeepSpeed 0.19, Megatron-LM core 0.16, torchtitan 0.3, Lightning 2.6."""


class Mesh(NamedTuple):
    """How the ranks are divided: their product is the world size. ``ep`` and ``etp`` divide the
    experts over the ranks of one stage once more."""

    replicate: int
    """Copies of the model."""
    shard: int
    """Ranks that one copy is sharded over."""
    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0
    """Ranks that share each expert; 0 if as many as tp."""

    @property
    def expert_parts(self) -> int:
        """Parts that the experts of a stage are divided into, each on ranks of its own."""
        return self.ep * self.expert_tp

    def list_degrees(self) -> list[tuple[str, int]]:
        """The degrees that divide the model, by their keys; ``etp`` only where it is not tp."""
        found = [(axis, getattr(self, axis)) for axis in ("tp", "pp", "cp", "ep")]
        found = [(axis, degree) for axis, degree in found if degree > 1]
        return found + [("etp", self.expert_tp)] * (self.expert_tp != self.tp)

    @property
    def expert_tp(self) -> int:
        """Ranks that share each expert."""
        return self.etp or self.tp

    @property
    def data(self) -> int:
        """Ranks that see different samples."""
        return self.replicate * self.shard

    @property
    def world(self) -> int:
        """All ranks."""
        return self.data * self.tp * self.pp * self.cp


class Batch(NamedTuple):
    """Samples of a rank's forward pass, how many passes make a step, over how many ranks."""

    micro: int
    accumulation: int
    ranks: int
    """Data-parallel ranks."""

    @property
    def total(self) -> int:
        """Samples of one step of the optimizer, over all ranks."""
        return self.micro * self.accumulation * self.ranks


class ModelSizes(NamedTuple):
    """Of the transformer, as far as they are known."""

    name: str = ""
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    experts: int | None = None
    """0 of a dense model."""
    positions: int | None = None
    """Learned positions, of a model that has any."""


class Offloaded(NamedTuple):
    """What is kept outside the GPU, and where."""

    optimizer: bool = False
    params: bool = False
    to: Literal["cpu", "nvme"] = "cpu"
    path: str = ""

    def __bool__(self) -> bool:
        return self.optimizer or self.params


class Strategy(NamedTuple):
    """Everything that a framework's configuration is made from."""

    name: str
    """Its word in job.yaml."""
    trait: Trait
    framework: str
    mesh: Mesh
    batch: Batch | None
    """None where the job says nothing of batches: the program's own affair."""
    precision: Literal["fp32", "bf16", "fp16"]
    settings: Parallel
    """What the job says beside the strategy's word."""
    seq_len: int | None = None
    recompute: Literal["none", "selective", "full"] = "none"
    clipping: float | None = None
    offload: Offloaded = Offloaded()
    wrap: tuple[str, ...] = ()
    """Names of the layer classes that are sharded, and recomputed, one by one."""
    min_params: int | None = None
    """Instead of classes: parameters of the smallest module that is sharded on its own."""
    timeout: int | None = None
    """Of the process groups, in seconds."""
    fused: bool | None = None
    """Whether the optimizer is to be the fused one; None is the framework's own choice."""
    pure: bool = False
    """Whether parameters and optimizer state are in 16 bits, too."""
    optimizer: str = "adamw"
    loss: Literal["plain", "compiled", "chunked", "fused"] = "plain"
    """How logits become the loss."""
    compiled: bool = False
    """Whether torch.compile compiles the layers."""
    profile: TracedSteps | None = None
    """Steps and ranks to trace."""
    sizes: ModelSizes = ModelSizes()
    config: bytes | None = None
    """The user's own DeepSpeed configuration."""
    config_name: str = ""
    """Its path in the workdir."""


class TrainDiagnostic(NamedTuple):
    """What cannot work: the key of ``train`` it is about, why, and the nearest thing that does."""

    code: str
    message: str
    path: tuple[str, ...]
    hint: str = ""
    place: Place | None = None
    """Where it stands in a file of the workdir that the key names."""


class Note(NamedTuple):
    """What a person should know, in one sentence, and the key of the job file that causes it."""

    message: str
    path: tuple[str, ...] = ("train",)
    severity: Literal["note", "warning"] = "note"
    """A warning where the program will stop or do something else than the job says."""
    hint: str = ""


class RankLayout(NamedTuple):
    """The ranks that there will be, and the network between their nodes."""

    nodes: int
    ranks_per_node: int
    fabric: str | None = None
    """None where it is not known."""
    gpus: bool = True

    @property
    def ranks(self) -> int:
        """The ranks on all nodes."""
        return self.nodes * self.ranks_per_node
