"""The environment of a job, checked where the job will run: by a short job on one node.

The job has the setup, environment, container and workdir of the user's, and runs a report of
jobgen's in place of the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobgen import payload
from jobgen.app.prepare import JobFile, PreparedJob, examine
from jobgen.app.short_jobs import ShortJob, prepare_short_job, read_last_lines, select_last
from jobgen.app.world import World
from jobgen.errors import Invalid
from jobgen.model.bundle import BundleFile
from jobgen.model.launchers import get_facts, name_agent
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.hub_settings import MODEL, REQUIRED
from jobgen.shell import build_script, quote_expandable, split_lines
from jobgen.survey.health import Finding, judge_rows
from jobgen.survey.health.environment import ROWS, JobEnvironment, parse_report
from jobgen.survey.python_imports import ImportedModule, read_imports, select_foreign

if TYPE_CHECKING:
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.model.record import RunRecord

PROGRAM, REQUEST, REPORT = (
    "environment_report.py",
    "environment_request.json",
    "environment.json",
)
LABEL = "the doctor's job"
TIME = "5m"
"""The time limit. The job takes seconds, but torch on a cold file system may take minutes."""
LOGIN_DEADLINE = 300.0
_MARK = "jobgen-environment "


class EnvironmentCheck(NamedTuple):
    """A job whose environment can be checked, and the job that does it."""

    ready: PreparedJob
    """The job that makes the report."""
    modules: tuple[ImportedModule, ...]
    setup: str
    """Where setup is written, or should be."""
    launcher: str
    gpus: int
    readable: bool
    needs_model: bool = False
    """Whether the job cannot run without the model that it names."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of setup that will run: of the site, then of the job."""
        plan = self.ready.plan
        return tuple(setting.value for setting in (*plan.site_setup, *plan.setup))


def prepare_check(
    world: World, job: Path, cluster: str | None, sets: tuple[str, ...]
) -> EnvironmentCheck:
    """The check of a job file's environment on a cluster. Contacts nothing.

    Raises Invalid with the problems of the job, and Missing for an unknown cluster.
    """
    from jobgen.load import read_data

    label, base = world.format_path(job), job.resolve().parent
    text = world.read(job, label)
    original = examine(world, JobFile(text, label, base, base), cluster, sets)
    if original.ready is None:
        raise Invalid(*original.diagnostics)
    theirs = original.ready
    sources = _read_sources(theirs)
    uploaded = [file.path for file in theirs.manifest.files] if theirs.manifest else []
    modules = _list_modules(theirs.job, sources, uploaded)
    launcher = _name_launcher(theirs)
    request = {
        "modules": [module.name for module in modules],
        "launcher": launcher,
        "folders": _list_folders(theirs.job, sources),
        "model": theirs.plan.env[MODEL].value if MODEL in theirs.plan.env else "",
    }
    files = (
        BundleFile(PROGRAM, payload.text(PROGRAM).encode()),
        BundleFile(REQUEST, json.dumps(request).encode()),
    )
    run = f'python "$JOBGEN_BUNDLE_DIR/{PROGRAM}"'
    gpus = min(theirs.plan.shape.gpus_per_node, 1)
    short = ShortJob("doctor", LABEL, run, TIME, gpus, files)
    where = cluster or theirs.job.value.cluster
    ready = prepare_short_job(world, short, read_data(text, label, sets), base, where)
    return EnvironmentCheck(
        ready,
        modules,
        str(theirs.job.cite("setup")) if theirs.job.value.list_setup() else f"{label} has none",
        launcher,
        gpus,
        readable=bool(sources or modules),
        needs_model=REQUIRED in theirs.plan.env,
    )


def _read_sources(theirs: PreparedJob) -> Mapping[str, str]:
    from jobgen.app.program_sources import read_sources

    found = theirs.facts.sources
    if found is None and theirs.manifest is not None:
        found = read_sources(theirs.job, theirs.manifest)
    return found or {}


def _list_modules(
    job: Loaded[JobSpec], sources: Mapping[str, str], uploaded: list[str]
) -> tuple[ImportedModule, ...]:
    """Modules that the job's files import or that ``run`` starts, and no uploaded file provides."""
    modules = read_imports(sources)
    for program, place in job.programs:
        name = program.module.partition(".")[0]
        if name and name not in modules:
            where = f"{place.file}:{place.line}" if place else "run"
            modules[name] = ImportedModule(name, where, required=True)
    return tuple(select_foreign(modules, sources, uploaded))


def _list_folders(job: Loaded[JobSpec], sources: Mapping[str, str]) -> list[str]:
    """Where the job's Python looks for modules: the program's folder, and the current one."""
    import posixpath

    started = [program.folder or "" for program, _ in job.programs]
    scripts = [posixpath.dirname(path) for path in sources if path.endswith(".py")][:1]
    return list(dict.fromkeys([*scripts, *started, ""]))


def _name_launcher(theirs: PreparedJob) -> str:
    name = theirs.plan.launcher.value
    return name_agent(name) if get_facts(name).task == "agent" else ""


def list_findings(world: World, check: EnvironmentCheck, record: RunRecord) -> Iterator[Finding]:
    """What the ended job reported, judged. Raises Unreachable."""
    from jobgen.transport.files import LIMIT, read_at

    report, ending = None, ""
    if record.directory:
        path = f"{record.directory}/state/0/{REPORT}"
        with world.connect(record.site.login) as transport:
            chunk = read_at(transport, path, 0, LIMIT)
        report = parse_report(chunk.data.decode("utf-8", "replace")) if chunk else None
    if report is None:
        ending = read_last_lines(world, record)
    code = int(record.exit.partition(":")[0] or 0) if record.exit else None
    case = _build_case(check, report, ending, code)._replace(log=f"jobgen logs {record.alias}")
    nodes = f" ({record.nodes})" if record.nodes else ""
    yield from judge_rows(f"The job's environment, on a node{nodes}", ROWS, case)


def _build_case(
    check: EnvironmentCheck, report: Mapping[str, Any] | None, ending: str, code: int | None
) -> JobEnvironment:
    return JobEnvironment(
        report,
        ending,
        code,
        check.modules,
        check.setup,
        check.launcher,
        check.gpus,
        readable=check.readable,
        needs_model=check.needs_model,
    )


def list_login_findings(world: World, check: EnvironmentCheck) -> Iterator[Finding]:
    """The same, on the login host: without the workdir, the container and GPUs."""
    site = check.ready.site
    bundle = check.ready.bundle
    request = bundle[REQUEST].content.decode()
    exports = [
        f"export {name}={quote_expandable(setting.value)}"
        for name, setting in check.ready.plan.env.items()
        if not name.startswith(("NCCL_", "JOBGEN_"))
    ]
    lines = [*exports, *check.lines, 'exec python -u -c "$1" "$2"']
    command = 'exec bash -c "$1" jobgen-doctor "$2" "$3" </dev/null'
    script = build_script(command, "\n".join(lines), payload.text(PROGRAM), request)
    with world.connect(site.login) as transport:
        result = transport.call(script, deadline=LOGIN_DEADLINE)
    texts = split_lines(result.out.decode("utf-8", "replace"))
    reports = [text.removeprefix(_MARK) for text in texts if text.startswith(_MARK)]
    report = parse_report(reports[-1]) if reports else None
    errors = split_lines(result.err.decode("utf-8", "replace"))
    ending = "" if report else select_last(errors)
    case = _build_case(check._replace(gpus=0), report, ending, result.code)
    host = site.login.host or "this machine"
    yield from judge_rows(f"The job's environment, on {host}", ROWS, case)
