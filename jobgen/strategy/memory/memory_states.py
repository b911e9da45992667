"""Bytes of parameters, gradients and optimizer state on one GPU, and how many parameters train."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, prod

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.measured_model import MeasuredModel, get_segments, split_units
from jobgen.strategy.mesh import is_balanced
from jobgen.strategy.setup import LINEAR, Adapters, Setup
from jobgen.strategy.shapes.architecture import Kind
from jobgen.strategy.spec import TRAITS


class TrainedPart(NamedTuple):
    """What a stage of a measured model trains, and what it keeps frozen."""

    total: float
    """Elements."""
    largest: float
    """Of the unit with the most."""
    outside: float
    """Of no unit."""
    frozen: float
    """Bytes, buffers included."""


class PipelineStage(NamedTuple):
    """What one stage of the pipeline has, of one tensor parallel rank. Elements."""

    layers: float
    inside: float
    """Of all its layers together."""
    outside: float
    """Embedding, or last norm and output layer; all of it without a pipeline."""
    largest: float
    """Of its largest layer."""
    experts: float
    """Of its experts, which are among those inside."""
    first: bool
    last: bool
    number: int = 0
    learned: TrainedPart | None = None
    """Of a measured model alone."""

    @property
    def params(self) -> float:
        """All its parameters."""
        return self.inside + self.outside

    @property
    def gradients(self) -> tuple[float, float]:
        """Trained elements of its largest unit, and of no unit."""
        if self.learned is None:
            return self.largest, self.outside
        return self.learned.largest, self.learned.outside


_FRONT: tuple[Kind, ...] = ("embedding", "position")
_BACK: tuple[Kind, ...] = ("head", "norm")


def list_stages(setup: Setup) -> tuple[PipelineStage, ...]:
    """The stages that may need most: the first and the last, or the only one."""
    if setup.measured is not None:
        return tuple(_list_measured_stages(setup, setup.measured))
    model, mesh = setup.model, setup.mesh
    every, parts = model.count_kinds("expert"), mesh.expert_parts
    experts = every / parts
    inside = (model.count - model.outside - every) / mesh.tp + experts
    widest = _expert_part(setup)
    largest = (model.largest - widest) / mesh.tp + widest / parts
    count = model.sizes.layers
    if mesh.pp == 1:
        whole = model.outside / mesh.tp
        return (PipelineStage(count, inside, whole, largest, experts, first=True, last=True),)
    each = count_layers(count, mesh.pp, setup.chunks)
    root = {kind: sum(t.count for t in model.root if t.kind == kind) for kind in _FRONT + _BACK}
    front = sum(root[kind] for kind in _FRONT) / mesh.tp
    back = sum(root[kind] for kind in _BACK) / mesh.tp
    if model.sizes.tied:
        back += root["embedding"] / mesh.tp
    part, experts = inside / count * each, experts / count * each
    return (
        PipelineStage(each, part, front, largest, experts, first=True, last=False),
        PipelineStage(
            each, part, back, largest, experts, first=False, last=True, number=mesh.pp - 1
        ),
    )


def _list_measured_stages(setup: Setup, measured: MeasuredModel) -> Iterator[PipelineStage]:
    """Each stage of a measured model: what its segments use."""
    pp, units, width = setup.mesh.pp, measured.units, setup.recipe.params
    for number, held in enumerate(split_units(len(units), pp)):
        own = [units[place] for place in held]
        inside, learned = sum(unit.params for unit in own), sum(unit.trained for unit in own)
        rows = measured.list_parameters(get_segments(held, len(units), number, pp))
        params, trained = sum(row.params for row in rows), sum(row.trained for row in rows)
        # a framework that casts the model casts what is frozen too
        frozen = sum(min(row.frozen_bytes, (row.params - row.trained) * width) for row in rows)
        part = TrainedPart(
            trained,
            max((unit.trained for unit in own), default=0),
            max(trained - learned, 0),
            frozen + measured.buffers,
        )
        yield PipelineStage(
            len(own),
            inside,
            max(params - inside, 0),
            max((unit.params for unit in own), default=0),
            0.0,
            first=number == 0,
            last=number == pp - 1,
            number=number,
            learned=part,
        )


def count_layers(count: int, stages: int, chunks: int = 1) -> float:
    """Layers of the first stage. Where they do not divide evenly, embedding and output layer count
    as a layer each if that comes out even, as Megatron's uneven splits do."""
    if count % stages and is_balanced(count, stages):
        return (count + 2) // stages - 1
    return ceil(count / stages / chunks) * chunks


def _expert_part(setup: Setup) -> float:
    return max(
        sum(tensor.count for tensor in layer.tensors if tensor.kind == "expert")
        for layer in setup.model.layers
    )


class GpuStates(NamedTuple):
    """Bytes on one GPU between two steps, gradients included."""

    params: float
    grads: float
    master: float
    moments: float

    @property
    def total(self) -> float:
        """All."""
        return sum(self)


def count_shards(setup: Setup) -> int:
    """Ranks that sharded states are divided over: those of the sequence share them too."""
    return setup.mesh.shard * setup.mesh.cp


def divide_states(setup: Setup, stage: PipelineStage) -> GpuStates:
    """States of this stage on one GPU, as the strategy divides them."""
    cut = count_shards(setup)
    level = TRAITS[setup.strategy].stage
    if setup.strategy == "fsdp-grad-op":
        level = 3  # gathered parameters are counted where they are gathered
    trained, frozen = count_trained(setup, stage)
    recipe = setup.recipe
    by_params, by_grads, by_state = (
        _divide(setup, stage, cut) if level >= least else 1.0 for least in (3, 2, 1)
    )
    scales = count_scales(setup, stage)
    found = GpuStates(
        (trained * recipe.params + frozen - scales) / by_params,
        count_graded(setup, stage) * recipe.grads / by_grads,
        trained * recipe.master / by_state,
        trained * recipe.moments / by_state,
    )
    if recipe.embedding_moments is not None and setup.adapters is None:
        wide = recipe.embedding_moments - recipe.moments
        found = found._replace(moments=found.moments + _embedded(setup, stage) * wide / by_state)
    if setup.step_in_backward:
        found = found._replace(grads=stage.largest * recipe.grads / by_grads)
    found = _outside(setup, found)
    return found._replace(params=found.params + scales)


def _divide(setup: Setup, stage: PipelineStage, cut: int) -> float:
    """Ranks that the states of a stage are divided over, on average: what ep has divided is the
    same on fewer of them (Megatron-LM, core/optimizer, ``intra_expt_dp_group``; torchtitan,
    distributed/parallel_dims.py, ``efsdp``)."""
    alike = max(1.0, cut * setup.mesh.tp / setup.mesh.expert_parts)
    return stage.params / ((stage.params - stage.experts) / cut + stage.experts / alike)


def count_whole_grads(setup: Setup, stage: PipelineStage) -> float:
    """Bytes of gradients that ``no_sync`` leaves whole on every rank from one micro-batch to the
    next: FSDP1 adds them up in the type that it gathers (torch 2.13, distributed/fsdp,
    ``_post_backward_hook``), FSDP2 in the type that it reduces (``to_accumulated_grad_if_needed``).
    """
    family, recipe = TRAITS[setup.strategy].family, setup.recipe
    sharded = family in {"fsdp", "fsdp2"} and count_shards(setup) > 1
    if not (sharded and setup.unsynced and setup.batch.accumulation > 1):
        return 0.0
    graded = count_graded(setup, stage)
    if setup.adapters is not None:
        return graded * recipe.grads
    return graded * (recipe.compute if family == "fsdp" else recipe.reduce)


def _embedded(setup: Setup, stage: PipelineStage) -> float:
    """Elements of embeddings that this stage has."""
    return setup.model.count_kinds(*_FRONT) / setup.mesh.tp if stage.first else 0.0


def _outside(setup: Setup, found: GpuStates) -> GpuStates:
    """Without what is offloaded. Gradients go with the optimizer, which works where it lies."""
    if setup.offload.optimizer:
        grads = 0.0 if TRAITS[setup.strategy].shards_gradients else found.grads
        found = found._replace(grads=grads, master=0.0, moments=0.0)
    if setup.offload.params:
        found = found._replace(params=0.0)
    return found


def count_trained(setup: Setup, stage: PipelineStage) -> tuple[float, float]:
    """Elements of this stage that are trained, and bytes of those that are frozen.

    An adapter's element counts as as many of the recipe's width as it is wide.
    """
    adapters = setup.adapters
    if stage.learned is not None:
        return stage.learned.total, stage.learned.frozen
    if adapters is None:
        return stage.params, 0.0
    part = _divide_layers(setup, stage)
    linear = _linear(setup) * part / setup.mesh.tp
    other = stage.params - linear
    wide = adapters.prepared or adapters.bits > 16
    frozen = linear * _frozen(adapters) + other * (4.0 if wide else 2.0)
    if adapters.prepared and adapters.narrow_ends:
        frozen -= 2.0 * setup.model.count_kinds("embedding", "head") / setup.mesh.tp
    whole = 0.0
    for kind in adapters.trained_fully:
        # a copy is trained, and the frozen one stays (peft, utils/other.py, ModulesToSaveWrapper)
        whole += _whole_kind(setup, kind) / setup.mesh.tp
    each = adapters.width / setup.recipe.params
    return each * _adapted(setup) * part / setup.mesh.tp + whole, frozen


def count_graded(setup: Setup, stage: PipelineStage) -> float:
    """Elements of this stage that have gradients, counted as those that are trained."""
    trained, _ = count_trained(setup, stage)
    flattened = setup.adapters is not None and setup.adapters.flattened
    return trained + (stage.inside if flattened else 0.0)


def _divide_layers(setup: Setup, stage: PipelineStage) -> float:
    """The part of all layers that this stage has, on all ranks of tp."""
    return stage.inside * setup.mesh.tp / max(1, setup.model.count - setup.model.outside)


def count_scales(setup: Setup, stage: PipelineStage) -> float:
    """Bytes of the scales of weights in 4 bits, which stay on every GPU as they are: they belong to
    no parameter that is sharded or moved (bitsandbytes, nn/modules.py, ``Params4bit.quant_state``;
    AnswerDotAI/fsdp_qlora, train.py: "FSDP only syncs parameters and buffers"). torchao's, which
    torchtune has, are split with their tensor (torchao's nf4_tensor.py, ``nf4_split``)."""
    adapters = setup.adapters
    if adapters is None or adapters.bits != 4 or setup.framework == "torchtune":
        return 0.0
    if stage.learned is not None:
        return 0.0
    linear = _linear(setup) * _divide_layers(setup, stage) / setup.mesh.tp
    return linear * (_frozen(adapters) - adapters.bits / 8)


def _whole_kind(setup: Setup, kind: str) -> float:
    sizes = setup.model.sizes
    return sizes.vocab * sizes.hidden if kind in {"embedding", "head"} else 0.0


def _frozen(adapters: Adapters) -> float:
    """Bytes of a frozen element. Of four bits: nf4 with a scale for each 64, in fp32 or themselves
    in 8 bits (QLoRA, arXiv:2305.14314, section 3: 0.5 or 0.127 bits more)."""
    if adapters.bits != 4:
        return adapters.bits / 8
    return 0.5 + (0.127 if adapters.nested else 0.5) / 8


def _linear(setup: Setup) -> float:
    """Elements of linear layers inside the layers."""
    return float(
        sum(
            tensor.count * times
            for tensor, times in setup.model.list_tensors()
            if tensor.kind in LINEAR and len(tensor.shape) > 1
        )
    )


def _adapted(setup: Setup) -> float:
    """Elements of all adapters: rank x (inputs + outputs) of each matrix that has one."""
    adapters = setup.adapters
    if adapters is None:
        return 0.0
    total = 0.0
    for tensor, times in setup.model.list_tensors():
        if not adapters.has(tensor):
            continue
        matrices = prod(tensor.shape[:-2]) * tensor.times * times
        total += adapters.rank * (tensor.shape[-1] + tensor.shape[-2]) * matrices
    return total
