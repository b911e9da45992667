"""What a run has measured of itself, beside what its plan expected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple
from jobgen.submission.program_report import (
    ALLOCATED,
    EXPECTED,
    GPU,
    NVIDIA_SMI,
    RESERVED,
    SPEED,
    STEP,
    TOKENS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobgen.app.monitor_reports import Watched
    from jobgen.model.record import RunRecord

FigureName = Literal["allocated", "reserved", "nvidia-smi", "step"]
MEMORY: Mapping[str, FigureName] = {
    ALLOCATED: "allocated",
    RESERVED: "reserved",
    NVIDIA_SMI: "nvidia-smi",
}
"""Key → metric, what says most of the estimate first: what torch allocates does not depend on the
state of its cache, and samples may miss a peak."""
LEAST, MOST = 0.5, 2.0
"""Ratios beyond these say that something else was measured: another unit, rank or batch."""


class Figure(NamedTuple):
    """One number of a run: bytes, or seconds of a step."""

    name: FigureName
    measured: float
    planned: float | None
    """None where the plan does not know it."""
    doubt: str = ""
    """Why it does not seem to be what its name says; empty for a plausible one."""

    @property
    def ratio(self) -> float | None:
        """What the estimate would have to be multiplied by."""
        return self.measured / self.planned if self.planned else None


class Objection(NamedTuple):
    """Why a run's figures are not those of a whole training."""

    reason: str
    """What follows the run's name in a sentence."""
    hint: str
    """With ``{}`` where its name stands."""


class RunComparison(NamedTuple):
    """The figures of one run."""

    alias: str
    token: str
    cluster: str
    gpu: str
    """The GPU that it was planned for; empty if it had no estimate."""
    figures: tuple[Figure, ...]
    gpus: tuple[float, ...] = ()
    """The peak of each GPU, as its monitors saw it; bytes."""
    speed: float | None = None
    """Tokens for each second, of all ranks, where it was reported."""
    objection: Objection | None = None
    """Why it calibrates nothing; None of a run that does, as far as its figures are plausible."""

    def is_useful(self, *, force: bool = False) -> bool:
        """Whether it corrects anything; with ``force`` by figures that are in doubt, too."""
        usable = self.choose_memory(force=force) or self.choose_step(force=force)
        return bool(usable) and self.objection is None

    def choose_memory(self, *, force: bool = False) -> Figure | None:
        """The figure that says most of its memory; with ``force`` also one that is in doubt."""
        return self._choose(force=force, step=False)

    def choose_step(self, *, force: bool = False) -> Figure | None:
        """The time of a step; with ``force`` also one that is in doubt."""
        return self._choose(force=force, step=True)

    def _choose(self, *, force: bool, step: bool) -> Figure | None:
        known = (one for one in self.figures if one.ratio and (one.name == "step") == step)
        able = sorted(known, key=lambda one: bool(one.doubt))
        return next((one for one in able if force or not one.doubt), None)


def compare_run(record: RunRecord, watched: Watched | None = None) -> RunComparison:
    """The figures of a run, with what its monitors saw; none where nothing was measured."""
    told = record.shape.get(EXPECTED)
    planned = told if isinstance(told, dict) else {}
    seen = [gpu.memory for node in watched.nodes for gpu in node.gpus] if watched else []
    gpus = tuple(amount for amount in seen if amount)
    return RunComparison(
        record.alias,
        record.token,
        record.site.cluster,
        str(planned.get(GPU, "")),
        tuple(_list_figures(record.report, planned, max(gpus, default=0.0))),
        gpus,
        record.report.get(SPEED),
        _find_objection(record),
    )


def _find_objection(record: RunRecord) -> Objection | None:
    if not record.ended:
        return Objection(f"is {record.state}: it has not finished", "jobgen wait {}")
    if record.state is not JobState.COMPLETED:
        reason = f"ended as {record.state}: its peak may never have been reached"
        return Objection(reason, "jobgen diagnose {}")
    if record.steps or record.shape.get("elements"):
        what = "an array" if record.shape.get("elements") else "a run of several programs"
        reason = f"is {what}: its reports are not those of one planned program"
        return Objection(reason, "calibrate with a run of one program")
    return None


def _list_figures(
    report: Mapping[str, float], planned: Mapping[str, float], shown: float
) -> Iterator[Figure]:
    reported = {key: report.get(key, 0.0) for key in (ALLOCATED, RESERVED)}
    mixed = reported[ALLOCATED] > reported[RESERVED] > 0
    for key, name in MEMORY.items():
        measured = reported.get(key, shown)
        if measured > 0:
            swapped = "more is allocated than reserved" if mixed and key in reported else ""
            yield _judge(Figure(name, measured, planned.get(key) or None, swapped))
    seconds = report.get(STEP, 0.0)
    if seconds <= 0 and report.get(SPEED, 0.0) > 0:
        seconds = planned.get(TOKENS, 0.0) / report[SPEED]
    if seconds > 0:
        yield _judge(Figure("step", seconds, planned.get(STEP) or None))


def _judge(figure: Figure) -> Figure:
    """With a doubt where the ratio is too far from 1."""
    ratio = figure.ratio
    if figure.doubt or ratio is None or LEAST <= ratio <= MOST:
        return figure
    return figure._replace(doubt=f"outside {LEAST:g} to {MOST:g}")
