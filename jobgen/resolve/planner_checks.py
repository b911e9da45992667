"""What the planner's estimate says of a job: whether it fits, and what is in doubt."""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.model.decision import PlanCheck
from jobgen.model.plan import Estimate, Shape
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.planner_request import (
    MEASURE_MODEL,
    PlannerRequest,
    ResolvedTrain,
    has_model_file,
)
from jobgen.wording import count

UNFIT = "J251"
"""The code of a plan that does not fit into the GPUs' memory. The hint of its check is a sentence
that the command which shows the memory completes: only the caller has the person's words."""
UNSIZED = "J267"
"""The code of sizes that are in doubt, or are not those of a language model."""


def check_layout(
    look: Inputs, chosen: ResolvedTrain, request: PlannerRequest
) -> Iterator[PlanCheck]:
    """A warning where ``auto`` divides the model only because the batch is too small, or odd, for
    all ranks."""
    ask, total = request.ask, chosen.train.global_batch
    if not request.auto or ask is None or total is None:
        return
    from jobgen.strategy.batch import find_multiple
    from jobgen.strategy.choice.advise import choose_first
    from jobgen.strategy.mesh import build_mesh

    ranks, every = (build_mesh(one, ask.world).data for one in (chosen.train, ask.train))
    enough = find_multiple(ask.train, every)
    if ranks >= every or enough == total:
        return
    best = choose_first(ask._replace(train=ask.train.replace(global_batch=enough)))
    if best is None or best[1].setup.mesh.data <= ranks:
        return
    sizes = ((axis, getattr(chosen.train, axis)) for axis in ("tp", "pp", "cp"))
    split = " x ".join(f"{axis} {size}" for axis, size in sizes if size > 1)
    message = (
        f"train: global_batch {total} leaves {count(ranks, 'data-parallel rank')} ({split}); "
        f"with {enough}, {best[1].title} would do"
    )
    place = look.spec.find_place("train", "global_batch")
    yield PlanCheck("warn", message, "J253", f"set global_batch: {enough}", place)


def check_sizes(look: Inputs, request: PlannerRequest) -> Iterator[PlanCheck]:
    """A warning where a config.json has no sizes of a language model, or perhaps not the model's:
    nothing is estimated then, or the estimate is in doubt."""
    if not request.doubt or (request.ask is None and not has_model_file(look)):
        return
    message = f"train.model: {request.doubt}"
    message += "; memory is not estimated" if request.ask is None else ""
    yield PlanCheck("warn", message, UNSIZED, MEASURE_MODEL, look.spec.find_place("train", "model"))


def check_mixers(look: Inputs, request: PlannerRequest) -> Iterator[PlanCheck]:
    """A warning where layers mix tokens without attention and need packages for their kernels, or
    are counted as if they had attention."""
    ask = request.ask
    if ask is None or ask.measured is not None:
        return
    from jobgen.strategy.memory.mixer_bytes import PACKAGES, counts_bytes
    from jobgen.strategy.shapes.hybrids import describe_mixers

    sizes = ask.model.sizes
    described = describe_mixers(sizes)
    if sizes.mixer is None or not described:
        return
    packages = PACKAGES.get(type(sizes.mixer))
    if packages is None and counts_bytes(sizes.mixer):
        return
    message, hint = f"train.model: {described}", MEASURE_MODEL
    if packages is None:
        message += ", whose activations and time are counted as attention's"
    else:
        message += f", counted with the kernels of {packages}; PyTorch's own code needs more memory"
        hint = f"install {packages}"
    yield PlanCheck("warn", message, UNSIZED, hint, look.spec.find_place("train", "model"))


def check_precision(
    look: Inputs, chosen: ResolvedTrain, request: PlannerRequest
) -> Iterator[PlanCheck]:
    """A warning where GPUs have no 8-bit products for ``fp8``: they take longer than without."""
    ask = request.ask
    if ask is None or not chosen.train.fp8 or ask.machine.fast8:
        return
    message = f"train: {ask.machine.gpu} has no tensor cores for 8-bit floats: fp8 saves no time"
    place = look.spec.find_place("train", "fp8")
    yield PlanCheck("warn", message, "J236", "set fp8: false, or use Hopper GPUs or later", place)


def check_memory(look: Inputs, size: Shape, estimate: Estimate) -> PlanCheck:
    """Whether what was decided fits."""
    from jobgen.strategy.estimate import GIB

    need, limit = estimate.needed / GIB, estimate.limit / GIB
    shown = f"{need:.0f}" if need >= 100 else f"{need:.1f}"
    message = f"needs about {shown} GiB of the GPU's {limit:.1f} GiB"
    if size.ranks_per_gpu > 1:
        share = f"the {limit:.1f} GiB for each of a GPU's {size.ranks_per_gpu} ranks"
        message = f"needs about {shown} GiB of {share}"
    if estimate.verdict == "fits":
        return PlanCheck("ok", f"fits: {message}")
    place = look.spec.find_place("train", _decisive(look))
    if estimate.verdict == "tight":
        message = f"tight: {message}; {estimate.note}"
        return PlanCheck("warn", message, UNFIT, "see what uses the memory", place)
    if estimate.needed <= estimate.limit:
        message = f"{estimate.note}; {message}"
    return PlanCheck("fail", f"does not fit: {message}", UNFIT, "see what would help", place)


def _decisive(look: Inputs) -> str:
    """The key of ``train`` that most decides how much memory is needed."""
    return "strategy" if look.has_written("train", "strategy") else "model"
