"""Measuring a user's own model by a short job, in the environment of the user's job."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen import payload
from jobgen.app.measurements import OwnModel, keep_report
from jobgen.app.measuring import PROGRAM, explain_failure, load_models
from jobgen.app.prepare import PreparedJob, prepare_each
from jobgen.app.short_jobs import ShortJob, prepare_short_job, read_last_lines
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Diagnostic
from jobgen.model.bundle import BundleFile
from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.measured import UNMEASURED

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport

NAME, LABEL = "measure", "plan --measure"
TIME = "15m"
"""The time limit. Most models take a minute, but torch on a cold file system may take minutes."""
MEMORY = "8G"
"""Weights take none, but torch with CUDA's libraries does, and a site's default may be 1 GiB."""
KEYS = {"cpus_per_task": 1, "mem": MEMORY}
LIMIT = 1 << 20
"""Bytes of a report; that of a model with 100 units has 30 KB."""


class MeasuringJob(NamedTuple):
    """The job that measures, and what it measures."""

    ready: PreparedJob
    spec: Loaded[JobSpec]
    """The user's job."""
    models: tuple[OwnModel, ...]


def prepare_measuring(
    world: World, job: Path, cluster: str | None, sets: Sequence[str], *, gpus: int = 0
) -> MeasuringJob:
    """The job on one node, with so many GPUs. Contacts nothing.

    Raises Invalid with the problems of the user's job, CheckFailed with those of the short one,
    Missing where the job names no function, and for an unknown cluster.
    """
    from jobgen.load import read_data

    spec, models = load_models(world, job, sets)
    where = cluster or spec.value.cluster
    files = [BundleFile(p, text.encode()) for p, text in payload.package(PROGRAM).items()]
    commands = ['cd "$JOBGEN_BUNDLE_DIR"', "export CUDA_VISIBLE_DEVICES="]
    for number, model in enumerate(models):
        sharded = _describe_sharded(world, spec, model, (job, where, sets))
        # the node knows where the uploaded folder is
        request = {**model.request, **sharded, "workdir": ""}
        asked = f"{NAME}-{number}.json"
        files.append(BundleFile(asked, json.dumps(request).encode()))
        commands.append(f'python -m {PROGRAM} {asked} "$JOBGEN_STATE_DIR/{_name_report(number)}"')
    run = "\n".join(commands)
    short = ShortJob(NAME, LABEL, run, TIME, gpus, tuple(files), KEYS)
    data = read_data(world.texts[spec.label], spec.label, sets)
    ready = prepare_short_job(world, short, data, job.resolve().parent, where)
    return MeasuringJob(ready, spec, models)


def _name_report(number: int) -> str:
    return f"measured-{number}.json"


def _describe_sharded(
    world: World,
    spec: Loaded[JobSpec],
    model: OwnModel,
    planned: tuple[Path, str | None, Sequence[str]],
) -> dict[str, Any]:
    """Of the request: the ranks of FSDP2, if the job names this strategy; ``auto`` chooses only
    when the job has ended."""
    train = spec.value.train
    none = {"shards": 0, "recompute": "none", "mixed_precision": False}
    if train is None or train.model != model.name or train.strategy.type != "fsdp2":
        return none
    from jobgen.strategy import RankLayout
    from jobgen.strategy.mesh import build_mesh

    job, cluster, sets = planned
    (ready,) = prepare_each(world, job, [cluster or ""], sets)
    shape, network = ready.plan.shape, ready.profile.value.network
    ranks = RankLayout(shape.nodes, shape.ranks_per_node, network.fabric, gpus=True)
    return {
        "shards": build_mesh(train, ranks).shard,
        "recompute": train.activation_checkpointing,
        "mixed_precision": train.precision != "fp32",
    }


def keep_reports(world: World, measuring: MeasuringJob, record: RunRecord) -> None:
    """Keep what the ended job has measured, for this and later plans.

    Raises Invalid with the line of the user's program that fails, CheckFailed where the job left
    no report or its Python cannot measure, and Unreachable.
    """
    manifest = measuring.ready.manifest
    uploaded = frozenset(file.path for file in manifest.files) if manifest else frozenset()
    with world.connect(record.site.login) as transport:
        contents = [
            _read_report(transport, record, number) for number in range(len(measuring.models))
        ]
    for model, content in zip(measuring.models, contents, strict=True):
        if content is None:
            raise _explain_end(world, measuring, model, record)
        report = parse_report(model, content, uploaded)
        if "failed" in report:
            raise explain_failure(
                world, measuring.spec, model, report, _advise_setup(measuring.spec)
            )
        place = {"node": record.nodes, "cluster": record.site.cluster}
        keep_report(model, {**report, **place})


def _read_report(transport: Transport, record: RunRecord, number: int) -> bytes | None:
    from jobgen.transport.files import read_at

    if not record.directory:
        return None
    path = f"{record.directory}/state/0/{_name_report(number)}"
    chunk = read_at(transport, path, 0, LIMIT)
    return chunk.data if chunk else None


def parse_report(model: OwnModel, content: bytes, uploaded: Container[str]) -> dict[str, Any]:
    """The report of a job that may write anything: sizes in their range, and no file but those that
    were uploaded. Raises CheckFailed for what is none."""
    from jobgen.strategy.measured_model import read_measured

    try:
        report = json.loads(content)
        if "failed" in report:
            return _parse_failure(report, uploaded)
        read_measured(model.name, report)
        files = {
            name: digest
            for name, digest in report["files"].items()
            if name in uploaded and isinstance(digest, str)
        }
        if not files:
            raise ValueError("no file")
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        message = f"the job's report on {model.name} cannot be read"
        hint = "does something else write into the job's state directory? measure again"
        raise CheckFailed(Diagnostic(UNMEASURED, message, hint=hint)) from error
    return {**report, "files": files}


def _parse_failure(report: Mapping[str, Any], uploaded: Container[str]) -> dict[str, Any]:
    """Why a model could not be measured. Raises TypeError or ValueError for what is none."""
    place, known = report.get("place"), report.get("known")
    if place is not None:
        file, *numbers = place
        line, *columns = (min(max(int(number), 0), _LONGEST_FILE) for number in numbers)
        col, end_col = (*columns, 0, 0)[:2]
        place = [file, line, col, end_col] if file in uploaded else None
    words = {key: str(report.get(key))[:_LONGEST] for key in ("failed", "message", "key")}
    names = [str(name)[:_LONGEST] for name in known[:_MOST]] if isinstance(known, list) else []
    return {**words, "place": place, "known": names}


_LONGEST = 1000
"""Characters of a message."""
_LONGEST_FILE = 1 << 31
"""Lines, and columns of one."""
_MOST = 1000
"""Functions of a file that are compared with the missing one."""


def _advise_setup(spec: Loaded[JobSpec]) -> str:
    has_setup = bool(spec.value.list_setup())
    where = f"setup ({spec.cite('setup')})" if has_setup else "`setup` (the job sets none)"
    return f"activate the environment of the program in {where}, or set `container`"


_ENDS = {
    JobState.TIMEOUT: f"it took longer than {TIME}; measure on this machine, without --on-cluster",
    JobState.OUT_OF_MEMORY: f"it needs more than {MEMORY}; measure on this machine, without "
    "--on-cluster",
    JobState.CANCELLED: "",
}
"""How the job ended → what to do about it; for all others the environment is the likely cause."""


def _explain_end(
    world: World, measuring: MeasuringJob, model: OwnModel, record: RunRecord
) -> CheckFailed:
    from jobgen.app.jobs import describe_state

    last = read_last_lines(world, record)
    message = f"{model.name} was not measured: {record.alias} is {describe_state(record)}: {last}"
    advice = _ENDS.get(record.state, _advise_setup(measuring.spec))
    log = f"log: jobgen logs {record.alias}"
    return CheckFailed(Diagnostic(UNMEASURED, message, hint="; ".join(filter(None, (advice, log)))))
