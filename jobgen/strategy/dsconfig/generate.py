"""The configuration that jobgen writes itself: every key that is needed, and no other.

What is left out has DeepSpeed's own default. What is written although it is a default differs
between the releases 0.17 to 0.19, or is there to be changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.strategy.dsconfig.chosen import ChosenKey
from jobgen.strategy.frameworks import FrameworkRequest
from jobgen.strategy.spec import TrainDiagnostic

_ZERO = "zero_optimization"
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_TITLES = {"deepspeed": "DeepSpeed", "accelerate": "accelerate", "hf-trainer": "the Trainer"}
_BUFFER = 100_000_000
"""``offload_param.buffer_size``: elements of one buffer on the way to NVMe, by default."""
_AIO = {
    "block_size": 1048576,
    "queue_depth": 8,
    "intra_op_parallelism": 1,
    "single_submit": False,
    "overlap_events": True,
}
"""DeepSpeed's defaults (runtime/swap_tensor/constants.py)."""


def choose_keys(request: FrameworkRequest, reader: str) -> Iterator[ChosenKey]:
    """The keys, in the order of the file."""
    yield from _batch(request, reader)
    yield from _precision(request)
    yield from _reduction(request)
    yield from _clipping(request, reader)
    yield from _sharding(request)
    yield from _buckets(request)
    yield from _offload(request)
    yield from _saving(request, reader)
    yield from _recompute(request, reader)


def check_request(request: FrameworkRequest, reader: str) -> Iterator[TrainDiagnostic]:
    """What DeepSpeed cannot do, whoever reads the file."""
    strategy = request.strategy
    for axis in ("tp", "pp", "cp", "ep"):
        degree = getattr(strategy.mesh, axis)
        if degree > 1:
            message = (
                f"{axis}: {degree} with {strategy.trait.title} needs Megatron-LM, not DeepSpeed"
            )
            yield TrainDiagnostic(
                "J232", message, (axis,), f"remove {axis}, or set framework: megatron"
            )
    if strategy.recompute == "selective":
        message = f"{_TITLES[reader]} can only recompute whole layers"
        yield TrainDiagnostic("J236", message, ("activation_checkpointing",), "use full")
    path = strategy.offload.path
    if "$" in path:
        message = f"{path} contains a variable, but nothing expands it in a JSON file"
        yield TrainDiagnostic(
            "J235", message, ("offload", "path"), "write the full path, such as /local/scratch"
        )


def check_batch(request: FrameworkRequest, reader: str) -> TrainDiagnostic | None:
    """DeepSpeed itself stops where the configuration says no batch; the others fill it in."""
    if request.strategy.batch or reader != "deepspeed":
        return None
    message = "DeepSpeed needs a batch size, and train: sets none"
    return TrainDiagnostic(
        "J236", message, ("micro_batch",), "set micro_batch: 1, or the largest that fits"
    )


def _batch(request: FrameworkRequest, reader: str) -> Iterator[ChosenKey]:
    batch = request.strategy.batch
    if batch is not None:
        said = (
            (batch.total, ("global_batch",)),
            (batch.micro, ("micro_batch",)),
            (batch.accumulation, ("gradient_accumulation",)),
        )
        for name, (value, key) in zip(_BATCH, said, strict=True):
            yield ChosenKey((name,), value, key=key)
    elif reader != "deepspeed":
        why = f"{_TITLES[reader]} fills it in: train: sets no batch size"
        for name in _BATCH:
            yield ChosenKey((name,), "auto", why)


def _precision(request: FrameworkRequest) -> Iterator[ChosenKey]:
    precision = request.strategy.precision
    if precision != "fp32":
        yield ChosenKey((precision, "enabled"), value=True, key=("precision",))
    if precision == "fp16":
        yield ChosenKey(("fp16", "loss_scale"), 0, "0 selects dynamic loss scaling")


def _reduction(request: FrameworkRequest) -> Iterator[ChosenKey]:
    dtype = request.strategy.settings.reduce_dtype
    if dtype is not None:
        yield ChosenKey(("communication_data_type",), dtype, key=("strategy", "reduce_dtype"))


def _clipping(request: FrameworkRequest, reader: str) -> Iterator[ChosenKey]:
    path = ("gradient_clipping",)
    clipping = request.strategy.clipping
    if clipping is not None:
        yield ChosenKey(path, float(clipping), key=("gradient_clipping",))
    elif reader == "hf-trainer":
        yield ChosenKey(path, "auto", "the Trainer fills in max_grad_norm")
    else:
        why = "no clipping; DeepSpeed 0.19 clips at 1.0 by default"
        yield ChosenKey(path, 0.0, why)


def _sharding(request: FrameworkRequest) -> Iterator[ChosenKey]:
    trait = request.strategy.trait
    stage = trait.stage if trait.family == "zero" else 0
    yield ChosenKey((_ZERO, "stage"), stage, key=("strategy",))
    if stage == 3 and not request.gpus:
        why = "a CPU has no streams to overlap communication with"
        yield ChosenKey((_ZERO, "overlap_comm"), value=False, why=why)
    if stage == 2 and request.gpus:
        why = "overlap gradient reduction with the backward pass; needs memory for a second bucket"
        yield ChosenKey((_ZERO, "overlap_comm"), value=True, why=why)


def _buckets(request: FrameworkRequest) -> Iterator[ChosenKey]:
    """Stage 3: what transformers and accelerate make of ``auto``."""
    trait, hidden = request.strategy.trait, request.strategy.sizes.hidden
    if trait.family != "zero" or not trait.shards_parameters or not hidden:
        return
    square = hidden * hidden
    sizes = (
        ("reduce_bucket_size", square, "hidden x hidden: one weight matrix of the model"),
        ("stage3_prefetch_bucket_size", 9 * square // 10, "0.9 x hidden x hidden, prefetched"),
        (
            "stage3_param_persistence_threshold",
            10 * hidden,
            "10 x hidden: norms and biases stay unsharded on every rank",
        ),
    )
    for name, value, why in sizes:
        yield ChosenKey((_ZERO, name), value, why)


def _offload(request: FrameworkRequest) -> Iterator[ChosenKey]:
    offload = request.strategy.offload
    if not offload or request.strategy.trait.family != "zero":
        return
    for name, wanted in (
        ("offload_optimizer", offload.optimizer),
        ("offload_param", offload.params),
    ):
        if wanted:
            yield from _place(request, name)
    if offload.optimizer:
        why = (
            "the program creates its own optimizer; by default DeepSpeed accepts only its CPU Adam"
        )
        yield ChosenKey(("zero_force_ds_cpu_optimizer",), value=False, why=why)
    if offload.to == "nvme":
        why = "DeepSpeed's default; tune it with ds_nvme_tune on the node"
        for name, value in _AIO.items():
            yield ChosenKey(("aio", name), value, why)


def _place(request: FrameworkRequest, name: str) -> Iterator[ChosenKey]:
    offload = request.strategy.offload
    yield ChosenKey((_ZERO, name, "device"), offload.to, key=("offload",))
    if offload.to == "nvme":
        yield ChosenKey((_ZERO, name, "nvme_path"), offload.path, key=("offload", "path"))
    pinned = request.gpus
    why = (
        "overlaps copies to the GPU with computation"
        if pinned
        else "no GPU copies from this memory"
    )
    yield ChosenKey((_ZERO, name, "pin_memory"), pinned, why)
    largest = _largest(request)
    if name == "offload_param" and offload.to == "nvme" and largest > _BUFFER:
        why = "each rank's part of the embedding must fit a buffer; the default is smaller"
        yield ChosenKey((_ZERO, name, "buffer_size"), largest, why)


def _largest(request: FrameworkRequest) -> int:
    """Elements of a rank's part of the embedding, in whole 1024s; 0 where not known."""
    sizes, ranks = request.strategy.sizes, request.strategy.mesh.data
    if not sizes.vocab or not sizes.hidden:
        return 0
    return -(-sizes.vocab * sizes.hidden // (ranks * 1024)) * 1024


def _saving(request: FrameworkRequest, reader: str) -> Iterator[ChosenKey]:
    trait = request.strategy.trait
    if trait.family == "zero" and trait.shards_parameters and reader != "deepspeed":
        why = f"{_TITLES[reader]} saves the whole model at the end, gathered from its shards"
        path = (_ZERO, "stage3_gather_16bit_weights_on_model_save")
        yield ChosenKey(path, value=True, why=why)


def _recompute(request: FrameworkRequest, reader: str) -> Iterator[ChosenKey]:
    if request.strategy.recompute != "none" and reader == "deepspeed":
        path = ("activation_checkpointing", "partition_activations")
        why = "activations are split over tensor-parallel ranks only, and there are none"
        yield ChosenKey(path, value=False, why=why)
