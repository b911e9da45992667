"""What the busiest stage of a pipeline holds, by which its collectives are sized."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.memory.memory_states import count_scales, list_stages
from jobgen.strategy.memory.memory_states import count_trained as count_stage_trained
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import has_experts
from jobgen.strategy.speed.adapter_products import count_trained


class StageSlice(NamedTuple):
    """What the busiest stage of the pipeline holds, in elements that tp has divided."""

    params: float
    experts: float
    units: float
    """Units that are gathered one by one."""
    largest: float
    root: float
    """What belongs to no layer."""

    @property
    def dense(self) -> float:
        """Without the experts, which have ranks of their own."""
        return self.params - self.experts


def count_largest_stage(setup: Setup, *, learned: bool = False) -> StageSlice:
    """Parameters of the stage with the most; those that are trained where ``learned``."""
    if setup.measured is not None:
        return _slice_measured(setup, learned=learned)
    model, mesh = setup.model, setup.mesh
    adapted = learned and setup.adapters is not None
    params = experts = units = largest = 0.0
    for layer in model.layers:
        count = count_trained(setup, layer.tensors) if adapted else float(layer.count)
        params += count * layer.times
        units += layer.times
        largest = max(largest, count)
        if model.sizes.experts and not adapted:
            experts += layer.times * sum(t.count for t in layer.tensors if t.kind == "expert")
    root = count_trained(setup, model.root) if adapted else float(model.outside)
    if mesh.pp > 1 and not model.sizes.tied:
        root /= 2
    return StageSlice(
        (params / mesh.pp + root) / mesh.tp,
        experts / mesh.pp / mesh.tp,
        units / mesh.pp + 1,
        largest / mesh.tp,
        root / mesh.tp,
    )


def _slice_measured(setup: Setup, *, learned: bool) -> StageSlice:
    """The same of a measured model."""
    stages = list_stages(setup)
    if learned:
        most = max(stages, key=lambda stage: count_stage_trained(setup, stage)[0])
        (largest, root), whole = most.gradients, count_stage_trained(setup, most)[0]
    else:
        most = max(stages, key=lambda stage: stage.params)
        largest, root, whole = most.largest, most.outside, most.params
    return StageSlice(whole, 0.0, most.layers + 1, largest, root)


def count_stored_bytes(setup: Setup) -> float:
    """Bytes of the largest stage's parameters as they are stored: those that are trained, and the
    frozen ones without the scales of 4 bits, which belong to no parameter."""
    most = max(list_stages(setup), key=lambda stage: stage.params)
    trained, frozen = count_stage_trained(setup, most)
    return setup.recipe.params * trained + frozen - count_scales(setup, most)


def get_gathered_width(setup: Setup, whole: StageSlice) -> float:
    """Bytes of an element of a layer when it is gathered: quantized weights are so as they are
    stored (bitsandbytes, nn/modules.py, ``Params4bit.quant_storage``)."""
    width = float(setup.recipe.compute)
    if setup.adapters is None or setup.measured is not None:
        return width
    most = max(list_stages(setup), key=lambda stage: stage.params)
    frozen = count_stage_trained(setup, most)[1] - count_scales(setup, most)
    return min(width, (frozen - width * whole.root) / max(1.0, whole.params - whole.root))


def count_layers(setup: Setup) -> float:
    """Layers of the busiest stage."""
    return float(-(-setup.model.sizes.layers // setup.mesh.pp))


def count_sparse_layers(setup: Setup) -> float:
    """Layers with experts of one stage, on the average."""
    layers = setup.model.layers
    sparse = sum(each.times for each in layers if has_experts(each.tensors))
    return sparse / setup.mesh.pp
