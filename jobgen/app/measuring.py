"""Measuring a user's own model: by its functions, in a process of the program's Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen import payload
from jobgen.app.measurements import OwnModel, keep_report, list_own_models
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Diagnostic, Invalid, JobgenError, Missing, Place, TimedOut
from jobgen.model.fields import find_nearest
from jobgen.resolve.measured import UNMEASURED

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded

PROGRAM = "measure_model"
DEADLINE = 1800.0
"""Seconds. Fake tensors take no memory, but every operation of the model is still called."""
_ENVIRONMENT = {
    # no GPU is touched: a model that asks for one is built on the CPU
    "CUDA_VISIBLE_DEVICES": "",
    # nothing is written into the workdir
    "PYTHONDONTWRITEBYTECODE": "1",
}
_LAST = 300
"""Characters of the last line that a program printed before it ended."""


def measure_models(world: World, job: Path, cluster: str | None, sets: Sequence[str] = ()) -> None:
    """Measure every model that a function builds, and keep the reports for this and later plans.

    Raises Invalid with the line of the user's program that fails, Missing where the job names no
    function, CheckFailed where the Python of the program cannot measure.
    """
    spec, models = load_models(world, job, sets)
    python = find_python(world)
    for model in models:
        world.say(f"measuring {model.name} on fake tensors with {python}")
        report = _run(world, spec, model, python, {"shards": 0, "recompute": "none"})
        keep_report(model, report)
        if "unmeasured" in report:
            continue  # FSDP would compute in 16 bits
        _measure_sharded(world, spec, model, (job, cluster, sets, python, report))


def load_models(
    world: World, job: Path, sets: Sequence[str]
) -> tuple[Loaded[JobSpec], tuple[OwnModel, ...]]:
    """A job and its models that functions build. Raises Invalid, and Missing where it has none."""
    from jobgen.app.gathering import locate_workdir
    from jobgen.load import load_job

    label = world.format_path(job)
    spec = load_job(world.read(job, label), label, sets=sets)
    workdir = locate_workdir(world, spec, job.resolve().parent)
    models = tuple(list_own_models(world, spec.value, workdir))
    if not models or spec.value.workdir.at is not None:
        hint = "train: {model: FILE.py:NAME, batch: FILE.py:NAME}; jobgen explain train.batch"
        raise Missing("nothing to measure: train.model names no function here", hint=hint)
    return spec, models


def _measure_sharded(
    world: World,
    spec: Loaded[JobSpec],
    model: OwnModel,
    rest: tuple[Path, str | None, Sequence[str], str, Mapping[str, Any]],
) -> None:
    """Where the job's strategy is FSDP2, a step of one of its ranks too, beside the estimate."""
    from jobgen.app.prepare import prepare_each
    from jobgen.strategy.choice.advise import choose_option
    from jobgen.strategy.memory.layer import FP32

    job, cluster, sets, python, report = rest
    named = cluster or spec.value.cluster
    names = [named] if named else []
    for ready in prepare_each(world, job, names, sets):
        request = ready.planner_request
        if request is None or request.ask is None or request.ask.measured is None:
            continue
        chosen = choose_option(request.ask, auto=request.auto)
        if chosen is None or request.ask.measured.name != model.name:
            continue
        setup = chosen.setup
        if setup.strategy != "fsdp2" or setup.mesh.shard < 2:
            continue
        world.say(f"measuring a rank of FSDP2 over {setup.mesh.shard} fake ranks")
        mixed = setup.recipe.compute < FP32
        asked = {"modes": [], "shards": setup.mesh.shard, "recompute": setup.recompute}
        more = _run(world, spec, model, python, {**asked, "mixed_precision": mixed})
        keep_report(model, {**report, "sharded": more["sharded"]})


def find_python(world: World) -> str:
    """The Python that the program would be started with here. Raises Missing."""
    path = world.environ.get("PATH", os.defpath)
    found = shutil.which("python", path=path) or shutil.which("python3", path=path)
    if found is None:
        raise Missing("no python on PATH", hint="activate the environment of the program")
    return found


def _run(
    world: World, spec: Loaded[JobSpec], model: OwnModel, python: str, more: Mapping[str, Any]
) -> dict[str, Any]:
    """The report of a measurement. Raises like ``measure_models``."""
    request = {"mixed_precision": False, **model.request, **more}
    with tempfile.TemporaryDirectory(prefix="jobgen-measure-") as folder:
        for path, text in payload.package(PROGRAM).items():
            target = Path(folder, path)
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, "utf-8")
        log, report = Path(folder, "log"), Path(folder, "report.json")
        asked = Path(folder, "request.json")
        asked.write_text(json.dumps(request), "utf-8")
        with log.open("wb") as stream:
            try:
                done = subprocess.run(
                    [python, "-m", PROGRAM, str(asked), str(report)],
                    cwd=folder,
                    env={**world.environ, **_ENVIRONMENT},
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    timeout=DEADLINE,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise TimedOut(f"{model.name} was not measured in {DEADLINE:.0f} s") from error
        try:
            found = json.loads(report.read_text("utf-8"))
        except (OSError, ValueError) as error:
            lines = log.read_text("utf-8", "replace").strip().split("\n")
            message = f"measuring {model.name} ended with exit code {done.returncode}"
            raise CheckFailed(message, hint=f"its last line: {lines[-1][-_LAST:]}") from error
    if "failed" in found:
        activate = f"activate the environment of the program first; {python} was used"
        again = "or measure where jobs run: --measure --on-cluster"
        raise explain_failure(world, spec, model, found, f"{activate}; {again}")
    return dict(found)


_CORRECT = "correct the line, then measure again"
_HINTS = {
    "program": "correct the line, then measure again; the functions run alone and on fake tensors: "
    "without arguments of the command line, weights of a file, or a GPU",
    "syntax": "correct it; or activate the Python that the program is written for",
    "line": _CORRECT,
    "step": "correct the line, or the shapes that the function of train.batch returns; then "
    "measure again",
    "gpu": "no GPU is used to measure, nor by --on-cluster: move that out of build_model, forward "
    "and what an import runs, or do it only if torch.cuda.is_available()",
    "variable": "it is set in a job, and not while measuring: read it outside build_model, the "
    "batch function and forward, or by os.environ.get with a default",
    "loss": "return the loss of one micro-batch: a tensor, .loss or ['loss']",
    "size": "set it under train:",
    "parameter": "only micro_batch and seq_len are passed: give the others a default",
    "data": "only tensors of up to 262,144 elements that no parameter is part of have values to "
    "read: no .item(), branch or size may depend on any other",
    "labels": "set train.model to a config.json, or to a mapping of sizes",
    "file": "it is relative to the workdir",
}
"""Kind of failure → what to do about it."""


def explain_failure(
    world: World,
    spec: Loaded[JobSpec],
    model: OwnModel,
    failed: Mapping[str, Any],
    activate: str,
) -> JobgenError:
    """The failure, at the line of the user's program, or at the key of the job; ``activate`` is the
    hint where torch or another module is missing."""
    kind, message, where = str(failed["failed"]), str(failed["message"]), failed.get("place")
    key = str(failed.get("key"))
    hint = activate if kind in {"torch", "import"} else _choose_hint(model, failed)
    if kind == "torch":
        return CheckFailed(Diagnostic(UNMEASURED, message, None, hint))
    place = _find_value(world, spec, model, key)
    if where:
        file, line, col, end_col = where
        path = Path(str(model.request["workdir"]), str(file))
        place = Place(world.format_path(path), int(line), int(col), int(end_col))
        with suppress(Invalid):  # it may be gone when a job ends
            world.read(path, place.file)
    return Invalid(Diagnostic(UNMEASURED, message, place, hint))


def _choose_hint(model: OwnModel, failed: Mapping[str, Any]) -> str:
    """What to do about a failure of the program's own."""
    kind, key = str(failed["failed"]), str(failed.get("key"))
    hint, function = _HINTS.get(kind, ""), str(model.request.get(key))
    if kind == "function":
        near = find_nearest(function.rpartition(":")[2], failed["known"])
        return f"did you mean {near}?" if near else "it must be a function of that file"
    if kind == "call":
        taken = ", ".join(map(str, failed["known"])) or "nothing"
        return f"{function} (train.{key}) must return what forward takes: {taken}"
    if kind == "type":
        return f"jobgen explain train.{key}"
    if kind == "data" and "seq_len" in model.request["words"]:
        return f"{hint}; or, for a transformer, set train.model to a mapping of its sizes"
    if kind in {"line", "step"} and not failed.get("place"):  # a library's line
        return "correct what the function of train.batch returns, then measure again"
    return hint


def _find_value(world: World, spec: Loaded[JobSpec], model: OwnModel, key: str) -> Place:
    """The place of the function's name in the job, or of its key where it is not on that line."""
    place, name = spec.find_place("train", key), str(model.request.get(key))
    lines = world.texts.get(place.file, "").split("\n")
    line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    at = line.find(name, place.col)
    return place if at < 0 else place._replace(col=at + 1, end_col=at + 1 + len(name))
