"""Submit a job; or stop one line before anything leaves: the dry run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jobgen.app import secret
from jobgen.app.array_submission import (
    ask_limits,
    list_refused,
    plan_arrays,
    require_submitted,
    submit_arrays,
)
from jobgen.app.code_changes import CodeChanges, read_changes
from jobgen.app.context import Progress, RunContext, SubmitStage, ignore_stage
from jobgen.app.inside_allocation import check_allocation
from jobgen.app.permissions import require_login, require_secrets, require_workdir
from jobgen.app.prepare import PreparedJob
from jobgen.app.run_origin import compute_digest, list_origin_files
from jobgen.app.submission_driver import carry_out
from jobgen.app.world import World
from jobgen.errors import JobgenError
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.record import Login, RunRecord
from jobgen.submission import exchange
from jobgen.submission.dry_run import DryRun, rehearse
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.transport import Transport
    from jobgen.upload import TarStream


def rehearse_submit(ready: PreparedJob) -> DryRun:
    """What ``submit`` would send, made by the code that sends it. Touches nothing, and so does not
    ask git, which writes: of the commit and its changes nothing is shown."""
    record = exchange.make_record(ready.plan, ready.bundle.digest, ready.site)
    uploads = len(ready.manifest.files) if ready.manifest else 0
    kept = list_origin_files(ready, CodeChanges())
    return rehearse(record, ready.plan, ready.bundle, uploads=uploads, kept=kept)


def submit(
    world: World,
    ready: PreparedJob,
    *,
    progress: Progress = ignore_stage,
    about: Mapping[str, Any] | None = None,
    connected: Callable[[Transport], None] = lambda _: None,
) -> RunRecord:
    """Upload, submit, write down: the run with its job id. ``about`` is kept with its shape.

    ``connected`` may use the connection before anything is sent.

    Raises CheckFailed for a missing secret, Unreachable, Refused, or JobgenError where the other
    side could not take the files; what was begun is in the ledger and never submitted twice.
    """
    delivery = _check_before(world, ready)
    changes = ready.changes or _read_changes(world, ready)
    kept = list_origin_files(ready, changes)
    record = _make_record(world, ready, changes, compute_digest(kept[0].content), about or {})
    transport = _connect(world, record.site.login, progress)
    try:
        connected(transport)
        record = _begin(world, _check_site(transport, ready, record), ready.bundle)
    except JobgenError:
        transport.close()
        raise
    context = RunContext(
        transport=transport,
        ledger=world.ledger,
        now=world.now,
        sleep=world.sleep,
        say=world.say,
        redial=lambda: world.connect(record.site.login),
        progress=progress,
    )
    files = (*exchange.list_run_files(record, ready.bundle), *kept)
    try:
        return _carry_out(
            world, ready, record, context, lambda: make_payload(world, ready, files, delivery)
        )
    finally:
        context.transport.close()


def _check_before(world: World, ready: PreparedJob) -> BundleFile | None:
    """What must hold before anything is contacted; the file of secrets. Raises CheckFailed."""
    secrets = ready.job.value.secrets
    require_login(world, ready.cluster_file, ready.site)
    require_secrets(world, secrets, ready.base)
    if ready.manifest is not None and ready.changes is None:
        require_workdir(world, ready.manifest, ready.base)
    return secret.build_delivery(world, secrets, ready.base)


def _make_record(
    world: World, ready: PreparedJob, changes: CodeChanges, origin: str, about: Mapping[str, Any]
) -> RunRecord:
    """The run to be submitted, with what a later command needs to submit it again."""
    git = f"{changes.commit}{changes.mark}"
    record = exchange.make_record(
        ready.plan, ready.bundle.digest, ready.site, token=world.token(), now=world.now(), git=git
    )
    again: dict[str, Any] = {"sets": list(ready.sets)} if ready.sets else {}
    if ready.cluster_file.by_path:
        again["profile"] = str(ready.cluster_file.path.resolve())
    return record._replace(shape={**record.shape, **again, "origin": origin, **about})


def _connect(world: World, login: Login, progress: Progress) -> Transport:
    """The connection, as the first stage of a submit. Raises Unreachable."""
    stage = SubmitStage(1, "connect", exchange.describe_connection(login))
    progress(stage)
    transport = world.connect(login)
    progress(stage._replace(ended=True))
    return transport


def _carry_out(
    world: World,
    ready: PreparedJob,
    record: RunRecord,
    context: RunContext,
    payload: Callable[[], Payload],
) -> RunRecord:
    """The run with its job id, and those of its arrays. Raises Refused if there is none."""
    record = carry_out(record, payload, context, options=ready.plan.submit_options)
    record = submit_arrays(record, context)
    require_submitted(record)
    for refused in list_refused(record):
        world.say(f"warning: {refused}")
    _remember_size(world, ready, record)
    return record


def _check_site(transport: Transport, ready: PreparedJob, record: RunRecord) -> RunRecord:
    """The record, with the arrays of a large sweep. Raises Unfit if the cluster has no room for the
    job: too many elements, or an allocation that is too small."""
    if ready.site.inside:
        check_allocation(transport, ready)
    packed = ready.plan.shape.packing is not None
    if ready.plan.elements and not packed and ready.plan.scheduler == "slurm":
        return plan_arrays(record, ready, ask_limits(transport, ready))
    return record


def _remember_size(world: World, ready: PreparedJob, record: RunRecord) -> None:
    """Note what was uploaded, for ``ls``; the job is accepted, whether or not that succeeds."""
    if ready.manifest is not None:
        with suppress(JobgenError):
            world.ledger.set_held(record.site.cluster, {record.token: ready.manifest.total})


def _read_changes(world: World, ready: PreparedJob) -> CodeChanges:
    """The commit and changes of what is uploaded; nothing of code that stays on the cluster."""
    if ready.plan.code_folder:
        return CodeChanges()
    return read_changes(ready.workdir, ready.manifest, world.environ)


def _begin(world: World, record: RunRecord, bundle: Bundle) -> RunRecord:
    """The run as it is first recorded, with room for what will be known later."""
    try:
        world.ledger.reserve()
        return world.ledger.begin(record, bundle)
    except JobgenError as error:
        problems = (p._replace(hint=f"{p.hint}; nothing was sent") for p in error.problems)
        raise JobgenError(*problems) from error


def make_payload(
    world: World,
    ready: PreparedJob,
    files: tuple[BundleFile, ...],
    delivery: BundleFile | None = None,
) -> Payload:
    """The tar of the run directory; ``build_delivery`` holds the values of secrets."""
    from jobgen.upload import build_payload

    stream = build_payload(ready.manifest, (*files, delivery) if delivery else files)
    return Payload(stream.size, _report_grown(world, stream))


def _report_grown(world: World, stream: TarStream) -> Iterator[bytes]:
    yield from stream.chunks
    for path in sorted(stream.grown):
        world.say(f"note: {path} grew while it was uploaded: what was added is not sent")
