"""Submit, and the same stopped one line before anything leaves: the dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobgen.app import orders, provenance, secret, submitting
from jobgen.app.calibrating import record_estimate
from jobgen.app.errand import Errand
from jobgen.app.permissions import require_login, require_secrets, require_workdir
from jobgen.app.prepare import Ready, judge, refusal
from jobgen.app.progress import STAGES, Progress, Stage, silent
from jobgen.app.world import World
from jobgen.errors import JobgenError
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.plan import Setting
from jobgen.model.record import Login, RunRecord
from jobgen.resolve.checks import UNSET
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.upload import Stream

TOKEN = "x" * 26
"""Stands for the run's token where none has been made."""


@dataclass(frozen=True, slots=True)
class DryStep:
    """One thing that would happen: what, the exact command, and the script that carries it."""

    title: str
    command: str
    script: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """All that a submit would do. The token stands as ``xxxxxxxx``; everything else is exact."""

    steps: tuple[DryStep, ...]
    env: tuple[tuple[str, Setting], ...]
    secrets: tuple[tuple[str, str], ...]
    """Name and where its value comes from; empty where it was not found."""
    files: tuple[tuple[str, int], ...]
    """Path below the run directory and bytes, of everything beside the working directory."""


def refuse_failing(ready: Ready) -> None:
    """Raise the error of the failed checks of the plan, if any, with the warnings behind them."""
    failed = [judge(check) for check in ready.plan.checks if check.status == "fail"]
    kind = refusal(failed)
    if kind is None:
        return
    if all(problem.code != UNSET for problem in failed):
        failed = [p._replace(hint=f"{p.hint} (--force submits anyway)") for p in failed]
    warned = (judge(check) for check in ready.plan.checks if check.status == "warn")
    raise kind(*failed, *warned)


def dry_run(ready: Ready) -> DryRun:
    """What ``submit`` would send, made by the code that sends it. Touches nothing."""
    record = _record(ready, TOKEN, 0.0)
    directory = f"{record.site.root}/{record.folder}"
    options = ready.plan.submit_options
    scripts = dict(orders.rehearse(record, options))
    sbatch = orders.command(record, directory, 1, options)
    files = orders.run_files(record, ready.bundle)
    count = len(ready.manifest.files) if ready.manifest else 0
    sent = f"{len(files)} files of jobgen" + (f", {count} files of src/" if count else "")
    steps = [
        DryStep("connect", connection(record.site.login)),
        DryStep("upload", f"tar of {sent} to {directory}", scripts["upload"]),
    ]
    if ready.plan.secrets:
        names = ", ".join(ready.plan.secrets)
        path = f"{directory}/{secret.FILE}"
        steps.append(DryStep("secrets", f"{names} (values hidden) to {path}, mode 0600"))
    steps.append(DryStep("submit", f"cd {directory} && {sbatch}", scripts["submit"]))
    return DryRun(
        tuple(steps),
        tuple(ready.plan.env.items()),
        tuple((name, ready.facts.secrets.get(name, "")) for name in ready.plan.secrets),
        tuple((f.path, len(f.content)) for f in files),
    )


def submit(
    world: World,
    ready: Ready,
    *,
    progress: Progress = silent,
    about: Mapping[str, Any] | None = None,
) -> RunRecord:
    """Upload, submit, write down: the run with its job id. ``about`` is kept with its shape.

    Raises CheckFailed for a missing secret, Unreachable, Refused, or JobgenError where the other
    side could not take the files; what was begun is in the ledger and never submitted twice.
    """
    require_login(world, ready.cluster_file, ready.site)
    require_secrets(world, ready.job.value.secrets, ready.base)
    if ready.manifest is not None:
        require_workdir(world, ready.manifest, ready.base)
    delivery = secret.delivery(world, ready.job.value.secrets, ready.base)
    git = provenance.commit(ready.workdir, world.environ)
    record = _record(ready, world.token(), world.now(), git)
    record = record._replace(shape={**record.shape, **(about or {})})
    login = record.site.login
    progress(Stage(1, STAGES, "connect", connection(login)))
    transport = world.connect(login)
    progress(Stage(1, STAGES, "connect", connection(login), ended=True))
    try:
        record = _begin(world, record, ready.bundle)
    except JobgenError:
        transport.close()
        raise
    errand = Errand(
        transport=transport,
        ledger=world.ledger,
        now=world.now,
        sleep=world.sleep,
        say=world.say,
        redial=lambda: world.connect(login),
        progress=progress,
    )
    files = orders.run_files(record, ready.bundle)
    try:
        return submitting.carry_out(
            record,
            lambda: _payload(world, ready, files, delivery),
            errand,
            options=ready.plan.submit_options,
        )
    finally:
        errand.transport.close()


def _begin(world: World, record: RunRecord, bundle: Bundle) -> RunRecord:
    """The run as it is written down, with room for what will be known of it."""
    try:
        world.ledger.reserve()
        return world.ledger.begin(record, bundle)
    except JobgenError as error:
        told = (p._replace(hint=f"{p.hint}; nothing was sent") for p in error.problems)
        raise JobgenError(*told) from error


def _payload(
    world: World, ready: Ready, files: tuple[BundleFile, ...], delivery: BundleFile | None
) -> Payload:
    from jobgen.upload import payload

    stream = payload(ready.manifest, (*files, delivery) if delivery else files)
    return Payload(stream.size, _chunks(world, stream))


def _chunks(world: World, stream: Stream) -> Iterator[bytes]:
    yield from stream.chunks
    for path in sorted(stream.grown):
        world.say(f"note: {path} grew while it was uploaded: what was added is not sent")


def _record(ready: Ready, token: str, now: float, git: str = "") -> RunRecord:
    plan, shape = ready.plan, ready.plan.shape
    return RunRecord(
        token=token,
        alias=plan.name,
        name=plan.name,
        site=ready.site,
        digest=ready.bundle.digest,
        created=now,
        shape={
            "nodes": shape.nodes,
            "ranks_per_node": shape.ranks_per_node,
            "gpus_per_node": shape.gpus_per_node,
            "seconds": shape.seconds,
            "launcher": plan.launcher.value,
            "outputs": list(plan.outputs),
            "labels": dict(plan.labels),
            "git": git,
            **({"elements": shape.elements} if shape.elements else {}),
            **({"monitor": plan.monitor.every} if plan.monitor else {}),
            **record_estimate(plan),
        },
    )


def connection(login: Login) -> str:
    """The connection as a command people know; empty words for this machine."""
    if login.backend == "local":
        return "this machine"
    port = f"-p {login.port} " if login.port else ""
    return f"ssh {port}{login.user}@{login.host}" if login.user else f"ssh {port}{login.host}"
