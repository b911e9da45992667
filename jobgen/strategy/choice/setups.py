"""From what a job says to what the planner is asked: one Train in one world → one Setup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from jobgen.data import gpus
from jobgen.named_tuple import NamedTuple
from jobgen.strategy.batch import ConfigBatch, assume_batch
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.frameworks.megatron_notes import drops_out
from jobgen.strategy.frameworks.megatron_traffic import MegatronTraffic, read_traffic
from jobgen.strategy.frameworks.program_options import read_values
from jobgen.strategy.measured_model import MeasuredModel
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import (
    NVLINK_CHANNELS,
    PCIE_CHANNELS,
    Adapters,
    Loss,
    Recipe,
    Setup,
)
from jobgen.strategy.shapes.architecture import Model
from jobgen.strategy.spec import ModelSizes, RankLayout, Strategy

if TYPE_CHECKING:
    from jobgen.model.train import Train


VARIED = ("activation_checkpointing", "offload", "tp", "pp", "ep")
"""Keys of ``train`` that the planner varies where the job does not write them."""


class Ask(NamedTuple):
    """A job on a cluster, as far as the planner needs it."""

    train: Train
    model: Model
    sizes: ModelSizes
    world: RankLayout
    machine: ClusterHardware
    launcher: str
    fixed: frozenset[str] = frozenset()
    """Keys of ``train`` that the job writes itself: they are not varied."""
    written: frozenset[str] = frozenset()
    """All keys of ``train`` that the job writes itself."""
    measured: MeasuredModel | None = None
    """The user's own model, where ``model`` stands for it."""
    factor: float = 1.0
    """What all estimates of memory are multiplied by, from runs that measured their own."""
    run_args: tuple[str, ...] = ()
    """The words of the programs that the job runs."""
    slower: float = 1.0
    """What all times of a step are multiplied by, from such runs."""
    spare_gpus: int = 0
    """GPUs of each node that the job could request, too, each with a rank more."""
    config: bytes | None = None
    """The file of ``train.config``."""
    config_batch: ConfigBatch | None = None
    """What it sets of the batch."""
    expandable: bool = False
    """Whether the job's environment sets ``expandable_segments`` of the allocator."""
    tf32: bool = False
    """Whether the job's environment or words round products of fp32 to TF32."""
    other_quantizer: bool = False
    """Whether another library than bitsandbytes quantizes the weights."""
    unset_network: tuple[str, ...] = ()
    """Keys that the profile's ``network`` lacks, in place of which a bandwidth is assumed."""


SEQ = 2048
"""Tokens of a sequence where nobody says how long it is, or the longest that the model takes."""

_RECIPES = {"zero": "mixed", "3d": "autocast", "ddp": "autocast", "fsdp": "autocast"}
"""Family → what is kept in 16-bit training. DeepSpeed has parameters in 16 bits and an fp32 copy;
autocast and FSDP's mixed precision leave parameters in fp32."""


_FUSED = ("deepspeed", "megatron", "torchtitan", "hf-trainer")
"""Frameworks whose optimizer is fused unless the job says otherwise."""


_UNSYNCED = ("torch", "accelerate", "hf-trainer")
"""Frameworks that accumulate gradients under FSDP without reducing them: accelerate and
transformers (``Accelerator.no_sync``), and programs like ``examples/gpt``. torchtitan and Lightning
reduce those of every micro-batch."""
_EACH = '{"gradient_accumulation_kwargs":{"sync_each_batch":true}}'
REDUCES_EACH = {
    "hf-trainer": f"--accelerator_config '{_EACH}'",
    "accelerate": "GradientAccumulationPlugin(sync_each_batch=True) in the program",
    "torch": "no no_sync() or set_requires_gradient_sync(False) in the program",
}
"""Framework → where its programs set that FSDP reduces gradients with every micro-batch:
transformers 5.23, ``trainer.py``; accelerate 1.15, ``Accelerator.accumulate``; torch 2.13, FSDP and
``fully_shard``. YAML takes the JSON as it is: no colon has a space after it."""
_PREPARED = ("accelerate", "hf-trainer")
"""Frameworks whose programs prepare a quantized model with peft."""
_OWN_ADAM = ("accelerate", "hf-trainer")
"""Frameworks whose programs keep torch's AdamW where ZeRO steps on the host: jobgen's configuration
has ``zero_force_ds_cpu_optimizer: false``, without which accelerate replaces it (accelerator.py,
``_prepare_deepspeed``). Programs of the others are to use DeepSpeed's."""
_BUCKET = 500_000_000
"""DeepSpeed's reduce_bucket_size by default (runtime/zero/config.py)."""
_BUCKET_MB = 25
"""DDP's buckets by default: torch's distributed.hpp, kDefaultBucketBytesCap."""
_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}
_CALLED = {
    "fp32": "fp32",
    "pure": "pure {precision}",
    "autocast": "{precision} autocast",
    "mixed": "{precision} with fp32 master weights",
    "main-grads": "{precision} with fp32 gradients",
}


def build_setup(strategy: Strategy, ask: Ask, train: Train | None = None) -> Setup:
    """What is asked about a decided strategy."""
    train = train or ask.train
    framework, mesh = strategy.framework, strategy.mesh
    zero = strategy.trait.family == "zero"
    native = framework == "megatron"
    copied = mesh.data > 1 and _copies_grads(strategy)
    views = strategy.trait.family == "ddp" and mesh.data > 1 and not copied
    sizes = ask.model.sizes
    own = read_traffic(ask.run_args, sizes.layers, mesh.pp) if native else MegatronTraffic()
    legacy = native and "--use-legacy-models" in read_values(ask.run_args)
    hidden_dropout = drops_out(ask.run_args) if native else sizes.hidden_dropout
    batch = strategy.batch or assume_batch(framework, mesh.data, ask.config_batch)
    if ask.measured and not strategy.batch:
        batch = batch._replace(micro=ask.measured.micro)
    return Setup(
        model=ask.model,
        strategy=strategy.name,
        mesh=mesh,
        batch=batch,
        seq=strategy.seq_len or assume_length(ask),
        recipe=choose_recipe(strategy, train),
        recompute=strategy.recompute,
        offload=strategy.offload,
        reshard=strategy.settings.reshard_after_forward,
        # since July 2025 (models/llama3/infra/parallelize.py, ``apply_fsdp``)
        split_root=framework == "torchtitan",
        framework=framework,
        copied_grads=copied,
        persistent_grads=native or zero or views,
        fused_activation=native and not legacy,
        fused_attention=native and not legacy,
        legacy=legacy,
        hidden_dropout=hidden_dropout,
        attention_dropout=not native and sizes.attention_dropout,
        fused_step=framework in _FUSED if strategy.fused is None else strategy.fused,
        cpu_adam=_has_cpu_adam(strategy),
        keeps_full_copy=strategy.settings.state_dict == "full",
        loss=choose_loss(framework, train.loss),
        unsynced=framework in _UNSYNCED and not _reduces_each(ask.run_args),
        reduce_bucket=_choose_bucket(strategy, ask),
        tf32=ask.tf32,
        compiled=train.compiled,
        fused_norms=native,
        joined_norms=framework == "torchtitan",
        repeat_kv=framework == "torchtitan" or legacy,
        sequence_parallel=mesh.tp > 1 and framework in {"torchtitan", "megatron"},
        keeps_gathered=mesh.tp > 1 and framework == "torchtitan",
        **own._replace(overlap_reduce=_reduces_beside(strategy, own))._asdict(),
        adapters=_adapters(strategy, train),
        expandable=ask.expandable,
        channels=choose_channels(ask.machine.gpu),
        world_per_node=ask.world.ranks_per_node,
        nvlink_nodes=ask.machine.nvlink_nodes,
        measured=ask.measured,
        flash=ask.measured is None or not ask.measured.keeps_scores,
        assumed=tuple(_list_assumed(train, ask)),
        derived=tuple(_list_derived(train)),
    )


def _has_cpu_adam(strategy: Strategy) -> bool:
    """Whether an optimizer that ZeRO offloads is DeepSpeed's own."""
    if strategy.framework not in _OWN_ADAM:
        return True
    if strategy.config is None:
        return False
    from jobgen.strategy.dsconfig.user_config import names_cpu_adam

    return names_cpu_adam(strategy.config, strategy.config_name)


def choose_channels(gpu: str) -> int:
    """NCCL's channels between GPUs of this name: the fewest where the catalogue joins them by PCIe
    alone."""
    known = gpus().get(gpu)
    return PCIE_CHANNELS if known is not None and known.link == "pcie" else NVLINK_CHANNELS


def choose_loss(framework: str, loss: Loss) -> Loss:
    """How the framework computes the loss that the job names: Megatron's plain one is in place."""
    return "in-place" if framework == "megatron" and loss == "plain" else loss


def _reduces_each(words: Iterable[str]) -> bool:
    """Whether the program's words say that FSDP reduces gradients with every micro-batch."""
    return any(re.search(r'"sync_each_batch": *true', word) for word in words)


def _reduces_beside(strategy: Strategy, own: MegatronTraffic) -> bool:
    """Whether gradients are reduced beside the backward pass. Megatron does so by an option, which
    jobgen passes with zero1 and with buckets of another size (``frameworks/megatron.py``)."""
    if strategy.framework != "megatron":
        return True
    passed = strategy.trait.stage == 1 or strategy.settings.bucket_mb != _BUCKET_MB
    return passed or own.overlap_reduce


def _choose_bucket(strategy: Strategy, ask: Ask) -> int:
    """Elements of the bucket that jobgen's DeepSpeed configuration asks for: one weight matrix with
    ZeRO-3, DeepSpeed's default below."""
    hidden = ask.sizes.hidden
    return hidden * hidden if strategy.trait.shards_parameters and hidden else _BUCKET


def _copies_grads(strategy: Strategy) -> bool:
    """Whether DDP's gradients lie apart from its buckets: so by default with these two."""
    view = strategy.settings.gradient_as_bucket_view
    if view is None:
        view = strategy.framework not in {"accelerate", "hf-trainer"}
    return strategy.trait.family == "ddp" and not view


def assume_length(ask: Ask) -> int:
    """Tokens of a sequence where the job does not write ``seq_len``; 1 of the user's own model,
    whose samples need not be sequences."""
    if ask.measured is not None:
        return 1
    return min(SEQ, ask.model.sizes.most or SEQ)


_GUESSED = ("optimizer", "loss", "compiled")
"""Keys whose default is a guess of what the program does."""


def _list_assumed(train: Train, ask: Ask) -> Iterator[str]:
    if "strategy" not in ask.written and train.strategy.type == ask.train.strategy.type:
        yield "strategy"
    yield from (key for key in _GUESSED if key not in ask.written)
    if train.seq_len is None:
        yield "seq_len"
    if ask.config_batch is not None:
        return
    if train.micro_batch is None and train.global_batch is None:
        yield "micro_batch"
    if train.gradient_accumulation is None and train.global_batch is None:
        yield "gradient_accumulation"


def _list_derived(train: Train) -> Iterator[str]:
    if train.global_batch is not None and train.micro_batch is None:
        yield "micro_batch"


def choose_recipe(strategy: Strategy, train: Train) -> Recipe:
    """Bytes of states, by what the framework is known to keep in this precision."""
    if strategy.precision == "fp32":
        name = "fp32"
    elif train.pure:
        name = "pure"
    elif strategy.framework == "megatron":
        name = "main-grads"
    else:
        name = _RECIPES.get(strategy.trait.family, "autocast")
    said = _CALLED[name].format(precision=strategy.precision)
    found = get_recipe(name, train.optimizer)
    scales = f" {train.fp8}" if isinstance(train.fp8, str) else ""
    eight = f", fp8{scales}" if train.fp8 else ""
    asked = strategy.settings
    reduced = asked.reduce_dtype or (asked.hook if asked.hook != "none" else None)
    width = _BYTES[reduced] if reduced else found.reduce
    return found._replace(name=found.name.replace(name, said, 1) + eight, reduce=width)


def _adapters(strategy: Strategy, train: Train) -> Adapters | None:
    """The adapters. trl prepares a quantized model, of 4 bits or 8, unless it is sharded
    (``SFTTrainer``, ``_prepare_peft_model``). DeepSpeed makes all of it 16 bits wide again
    (runtime/engine.py, ``_configure_distributed_model``)."""
    lora = train.lora
    if lora is None:
        return None
    whole = not strategy.trait.shards_parameters and strategy.name != "fsdp-grad-op"
    kept = whole and strategy.trait.family != "zero"
    prepared = lora.bits < 16 and strategy.framework in _PREPARED and kept
    return Adapters(lora.rank, lora.targets, lora.bits, prepared=prepared)
