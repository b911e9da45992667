"""The memory of a model that a function builds, as far as ``plan --measure`` has measured it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.model.decision import PlanCheck
from jobgen.model.trained import is_function
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.strategy import Note
    from jobgen.strategy.measured_model import MeasuredModel

UNMEASURED = "J264"
"""The code of a model that is to be measured, or measured again. Its hint is a sentence that a
command completes: only the caller has the person's words."""
MEASURE = "measure it"


class MeasurementGap(NamedTuple):
    """What is missing for an estimate, in words, and the key of ``train`` that it is about."""

    text: str = ""
    key: str = "model"


def find_measured(look: Inputs, train: Train) -> tuple[MeasuredModel | None, MeasurementGap]:
    """The measured model of this job; else what is missing."""
    name = train.model
    if not isinstance(name, str) or not is_function(name):
        return None, MeasurementGap()
    known = look.facts.measured.get(name)
    if known is None or known.report is None:
        outdated = known.outdated if known else ""
        return None, MeasurementGap(outdated or f"{name} is not measured yet")
    from jobgen.strategy.measured_model import read_measured

    try:
        measured = read_measured(name, known.report)
    except (TypeError, ValueError):
        return None, MeasurementGap(f"the measurement of {name} cannot be read")
    unknown = _name_unmeasured(train, measured)
    return (None, unknown) if unknown.text else (measured, unknown)


def _name_unmeasured(train: Train, measured: MeasuredModel) -> MeasurementGap:
    """What this job asks for and no measurement can show, with what to do; empty if there is
    nothing."""
    axis = next((axis for axis in _UNDIVIDED if getattr(train, axis) > 1), "")
    if axis:
        return MeasurementGap(
            f"no measurement shows {_UNDIVIDED[axis].format(measured.name)}: omit {axis}", axis
        )
    if train.lora is not None:
        return MeasurementGap(f"{measured.name} builds its own adapters: omit lora", "lora")
    if measured.width < 4 and not train.pure and train.precision != "fp32":
        return MeasurementGap(
            f"{measured.name} builds trained parameters in 16 bits: set pure: true"
        )
    unknown = _name_unrecomputed(train.activation_checkpointing, measured)
    if unknown:
        return MeasurementGap(unknown, "activation_checkpointing")
    return MeasurementGap(_name_unpiped(train.pp, measured) if train.pp > 1 else "", "pp")


def _name_unrecomputed(recompute: str, measured: MeasuredModel) -> str:
    """Why this kind of recomputing cannot be estimated; empty if it can."""
    if any(trace.recompute == recompute for trace in measured.traces):
        return ""
    if recompute == "full":
        return f"{measured.name} has no list of layers to recompute: set wrap to their class"
    return f"{recompute} activation checkpointing is measured in the model's own code: set none"


_UNDIVIDED = {
    "tp": "which matrices of {} tp divides",
    "cp": "how cp divides the attention of {}",
    "ep": "which modules of {} ep divides",
}
"""Parallel size → what a measurement of the whole model cannot show."""


def _name_unpiped(stages: int, measured: MeasuredModel) -> str:
    """Why no pipeline of so many stages can be estimated; empty if one can."""
    trace = measured.traces[0]
    if not trace.segments:
        return f"{measured.name} was measured without its layers: measure it again for pp"
    if trace.broken:
        return f"pp {stages} cannot divide {measured.name}: {trace.broken}; omit pp"
    if len(measured.units) < stages:
        return f"pp is {stages}, but {measured.name} has {count(len(measured.units), 'layer')}"
    return ""


def check_measured(look: Inputs, train: Train) -> Iterator[PlanCheck]:
    """A warning where the model of a function is not measured, or not any more."""
    measured, missing = find_measured(look, train)
    if measured is not None or not missing.text or train.batch is None:
        return
    place, hint = look.spec.find_place("train", missing.key), advise_measuring(look, train)
    yield PlanCheck("warn", f"memory is not estimated: {missing.text}", UNMEASURED, hint, place)


def advise_measuring(look: Inputs, train: Train) -> str:
    """The hint that a measurement is missing; empty where what is missing is another thing."""
    known = look.facts.measured.get(str(train.model))
    return MEASURE if known is None or known.report is None else ""


def note_compiled(train: Train, measured: MeasuredModel | None) -> Iterator[Note]:
    """That ``compiled`` leaves the estimate of a measured model as it is."""
    from jobgen.strategy import Note

    if measured is not None and train.compiled:
        message = "compiled: true does not change the estimate: the model was measured eagerly"
        yield Note(message, ("train", "compiled"))
