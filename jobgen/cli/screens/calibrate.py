"""The answer of ``calibrate``: what each run measured, what its plan expected, what is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.cli.screens.measurement_rows import describe_calibration, dump_calibration
from jobgen.cli.screens.memory_parts import to_gib
from jobgen.cli.screens.step_speed import format_time
from jobgen.wording import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.calibration import Calibration, CalibrationResult
    from jobgen.app.run_comparison import Figure, RunComparison

_HEAD = ("", "MEASURED", "PLANNED", "RATIO", "")


def draw_result(found: CalibrationResult, ink: Ink) -> str:
    """A table for each run, then what its clusters' plans are corrected by."""
    tables = [_draw_run(run, ink, forced=found.forced) for run in found.compared]
    return "\n".join([*tables, draw_kept(found.calibrations, ink)])


def draw_kept(calibrations: Sequence[Calibration], ink: Ink) -> str:
    """What is kept of each cluster, and how it is used."""
    lines = []
    for kept in calibrations:
        if not kept.runs:
            lines.append(f"Your runs on {_name_machine(kept)}: none\n")
            continue
        text = f"Your runs on {_name_machine(kept)}: {describe_calibration(kept)}"
        lines.append(fold(f"{text}{' (medians)' * (len(kept.runs) > 1)}", ink.width, "  ") + "\n")
    files = dict.fromkeys(kept.path for kept in calibrations if kept.runs)
    lines += [
        f"Kept in {defuse(file)}: plan shows it, plan --calibrated applies it\n" for file in files
    ]
    return "".join(lines)


def _name_machine(machine: Calibration | RunComparison) -> str:
    gpu = f" ({defuse(machine.gpu)})" if machine.gpu else ""
    return f"{defuse(machine.cluster)}{gpu}"


def _draw_run(run: RunComparison, ink: Ink, *, forced: bool) -> str:
    memory, step = run.choose_memory(force=forced), run.choose_step(force=forced)
    rows = [_HEAD]
    for figure in run.figures:
        write = format_time if figure.name == "step" else _write_size
        planned = write(figure.planned) if figure.planned else "unknown"
        ratio = f"{TIMES}{figure.ratio:.2f}" if figure.ratio else "-"
        used = _describe_use(figure, used=figure in (memory, step))
        rows.append((figure.name, write(figure.measured), planned, ratio, used))
    title = f"{ink('strong', defuse(run.alias))} on {_name_machine(run)}"
    return f"{title}\n{align(rows, indent='  ')}{_draw_gpus(run)}"


def _write_size(amount: float) -> str:
    return f"{to_gib(amount)} GiB"


def _describe_use(figure: Figure, *, used: bool) -> str:
    if used:
        return f"used: forced, {figure.doubt}" if figure.doubt else "used"
    return f"not used: {figure.doubt}" if figure.doubt else ""


def _draw_gpus(run: RunComparison) -> str:
    """The range of the peaks in nvidia-smi, where there are several GPUs."""
    if len(run.gpus) < 2:
        return ""
    low, high = to_gib(min(run.gpus)), to_gib(max(run.gpus))
    return f"  nvidia-smi: {low} to {high} GiB on {count(len(run.gpus), 'GPU')}\n"


def dump_result(found: CalibrationResult) -> dict[str, Any]:
    """Everything as plain data."""
    return {
        "runs": [_dump_run(run, forced=found.forced) for run in found.compared],
        "calibrations": [dump_calibration(kept) for kept in found.calibrations],
    }


def _dump_run(run: RunComparison, *, forced: bool) -> dict[str, Any]:
    used = run.choose_memory(force=forced), run.choose_step(force=forced)
    return {
        "id": run.alias,
        "cluster": run.cluster,
        "gpu": run.gpu,
        "gpu_peaks_bytes": list(run.gpus),
        "figures": [_dump_figure(figure, used=figure in used) for figure in run.figures],
    }


def _dump_figure(figure: Figure, *, used: bool) -> dict[str, Any]:
    unit = "seconds" if figure.name == "step" else "bytes"
    return {
        "name": figure.name,
        f"measured_{unit}": figure.measured,
        f"planned_{unit}": figure.planned,
        "ratio": figure.ratio,
        "used": used,
        "doubt": figure.doubt or None,
    }
