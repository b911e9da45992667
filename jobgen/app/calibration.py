"""What ``jobgen calibrate`` keeps of a person's own runs on a cluster, and what follows from it."""

from __future__ import annotations

import contextlib
import fcntl
import json
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jobgen.app.run_comparison import RunComparison, compare_run
from jobgen.app.world import World, read_regular, replace_file
from jobgen.errors import CheckFailed, JobgenError
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FOLDER = "calibrations"
"""Below the folder of the run database."""


class CalibratedRun(NamedTuple):
    """The ratios of one run: measured / planned; None where it has not measured that."""

    alias: str
    token: str
    gpu: str
    memory: float | None
    step: float | None


class Calibration(NamedTuple):
    """What a person's runs on the GPUs of a cluster say together."""

    cluster: str
    gpu: str
    path: str
    """The file that keeps it."""
    runs: tuple[CalibratedRun, ...] = ()

    @property
    def memory(self) -> float | None:
        """The median of the ratios of memory; None where no run has measured any."""
        return _find_median([run.memory for run in self.runs])

    @property
    def step(self) -> float | None:
        """The median of the ratios of a step."""
        return _find_median([run.step for run in self.runs])


def _find_median(ratios: Sequence[float | None]) -> float | None:
    known = [ratio for ratio in ratios if ratio is not None]
    return median(known) if known else None


class CalibrationResult(NamedTuple):
    """What was compared, and what is kept of it."""

    compared: tuple[RunComparison, ...]
    calibrations: tuple[Calibration, ...]
    """Of each cluster and GPU of these runs, as it holds from now on."""
    forced: bool = False

    @property
    def unused(self) -> tuple[RunComparison, ...]:
        """The runs of which nothing can be used."""
        return tuple(run for run in self.compared if not run.is_useful(force=self.forced))


def locate_calibration(world: World, cluster: str) -> Path:
    """The file that keeps what was measured on a cluster."""
    return world.state / FOLDER / f"{quote(cluster, safe='')}.json"


def read_calibration(world: World, cluster: str, gpu: str) -> Calibration:
    """What is known of these GPUs of a cluster; nothing where nothing is kept."""
    path = locate_calibration(world, cluster)
    runs = tuple(run for run in _read(path) if run.gpu == gpu)
    return Calibration(cluster, gpu, world.format_path(path), runs)


def calibrate_runs(world: World, refs: Sequence[str], *, force: bool = False) -> CalibrationResult:
    """Compare finished runs with their plans, and keep their ratios for later plans. Nothing is
    kept where one of the runs cannot be compared.

    Raises CheckFailed for a run that did not finish, was not planned or has measured nothing;
    Missing for an unknown one.
    """
    compared = tuple(_compare(world, ref) for ref in dict.fromkeys(refs))
    for run in compared:
        if run.is_useful(force=force):
            memory, step = run.choose_memory(force=force), run.choose_step(force=force)
            kept = CalibratedRun(
                run.alias, run.token, run.gpu, memory and memory.ratio, step and step.ratio
            )
            _change(world, run.cluster, run.token, kept)
    return CalibrationResult(compared, _list_calibrations(world, compared), force)


def forget_runs(world: World, refs: Sequence[str]) -> CalibrationResult:
    """Keep nothing of these runs any more. Raises Missing for an unknown one."""
    from jobgen.app.array_elements import find_run

    compared = tuple(compare_run(find_run(world, ref)[0]) for ref in dict.fromkeys(refs))
    for run in compared:
        _change(world, run.cluster, run.token, None)
    return CalibrationResult(compared, _list_calibrations(world, compared))


def _list_calibrations(world: World, compared: Sequence[RunComparison]) -> tuple[Calibration, ...]:
    places = dict.fromkeys((run.cluster, run.gpu) for run in compared)
    return tuple(read_calibration(world, *place) for place in places)


def _compare(world: World, ref: str) -> RunComparison:
    from jobgen.app import jobs

    view = jobs.show(world, ref)
    compared = compare_run(view.record, view.watched)
    if compared.objection:
        hint = compared.objection.hint.format(compared.alias)
        raise CheckFailed(f"{compared.alias} {compared.objection.reason}", hint=hint)
    if not compared.gpu:
        raise CheckFailed(
            f"{compared.alias} was submitted without an estimate to compare with",
            hint="add train: {model: NAME} to its job; jobgen explain train",
        )
    if not any(figure.ratio for figure in compared.figures):
        raise CheckFailed(
            f"{compared.alias} has measured neither its memory nor its steps",
            hint='the program writes {"peak_allocated_bytes": N, "step_s": S} to '
            "$JOBGEN_REPORT_FILE; or set `monitor: 30s` in the job",
        )
    return compared


def _change(world: World, cluster: str, token: str, run: CalibratedRun | None) -> None:
    """Keep a run in place of what was kept of it."""
    path = locate_calibration(world, cluster)
    try:
        with _lock(path.parent):
            others = [each for each in _read(path) if each.token != token]
            rows = [each._asdict() for each in (*others, *([run] if run else []))]
            if rows or path.exists():
                replace_file(path, json.dumps({"runs": rows}, indent=1) + "\n")
    except OSError as error:
        raise JobgenError(f"cannot write {path}: {error.strerror}") from error


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Change the files of a folder alone: another process that calibrates waits. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> tuple[CalibratedRun, ...]:
    """The runs that a file keeps; what is damaged is passed over."""
    try:
        rows = json.loads(read_regular(path))["runs"]
    except (OSError, ValueError, RecursionError, TypeError, KeyError):
        return ()
    return tuple(_parse(rows)) if isinstance(rows, list) else ()


def _parse(rows: Sequence[Any]) -> Iterator[CalibratedRun]:
    for row in rows:
        words = [row.get(key) if isinstance(row, dict) else None for key in CalibratedRun._fields]
        alias, token, gpu = map(str, words[:3])
        memory, step = map(_read_ratio, words[3:])
        if None not in words[:3] and (memory or step):
            yield CalibratedRun(alias, token, gpu, memory, step)


def _read_ratio(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 < value < inf else None
