"""(job, cluster, facts) → Plan: every decision, each with its why and its place.

Nothing is asked and nothing is read here. The order is shape → network → container → launcher →
environment; each step sees what was decided before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Invalid, raise_errors
from jobgen.fabric import configure_network
from jobgen.launch import Launch, LaunchRequest, launch
from jobgen.model.decision import PlanCheck, SelfEvident, Setting
from jobgen.model.facts import Facts
from jobgen.model.launchers import get_facts
from jobgen.model.part_plans import ContainerPlan, StopPlan, TrackPlan
from jobgen.model.plan import Part, Plan, Shape, Step
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import (
    binding,
    caches,
    checks,
    component_jobs,
    container_checks,
    container_command,
    directives,
    gpu_sharing,
    group_jobs,
    hub_settings,
    judging,
    launcher_limits,
    monitor_settings,
    notifying,
    part_images,
    planner_request,
    preflighting,
    preparing,
    profiling_steps,
    program,
    racing,
    rank_environment,
    saving,
    site_runtimes,
    start,
    step_jobs,
    sweeping,
    traces,
    tracking_settings,
    training,
)
from jobgen.resolve.inputs import Inputs, get_profile_name
from jobgen.resolve.planner_request import PlannerRequest
from jobgen.resolve.shape import Sized, decide_shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded
    from jobgen.shell import Word


class Examined(NamedTuple):
    """Everything that is decided, or wrong, about a job on a cluster."""

    plan: Plan | None
    """None where something is an error."""
    problems: tuple[Diagnostic, ...]
    """Errors of the two files together; with a plan, its notes."""
    checks: tuple[PlanCheck, ...]
    """What was checked beside them, good news too."""
    planner_request: PlannerRequest | None = None
    """For whoever asks the planner for more than the plan's estimate; None without ``train``."""
    program_files: frozenset[str] = frozenset()
    """Names of the files that belong to the program, not to the job."""


def resolve(job: Loaded[JobSpec], cluster: Loaded[ClusterProfile], facts: Facts) -> Plan:
    """The plan. Raises Invalid with every problem at once."""
    examined = examine(job, cluster, facts)
    if examined.plan is None:
        raise Invalid(*examined.problems)
    return examined.plan


def examine(job: Loaded[JobSpec], cluster: Loaded[ClusterProfile], facts: Facts) -> Examined:
    """The plan and its checks; with errors, all problems and checks that do not follow from them.

    Never raises Invalid.
    """
    look = Inputs(job, cluster, facts)
    shapes = racing.split_shapes(look)
    return _examine_shapes(look, shapes) if shapes else _examine_programs(look)


def _examine_shapes(look: Inputs, shapes: Mapping[int, Inputs]) -> Examined:
    """Each shape of a race as a job of its own."""
    every = {number: _examine_programs(each) for number, each in shapes.items()}
    plans = {number: each.plan for number, each in every.items() if each.plan is not None}
    first = every[0]
    if len(plans) < len(every):
        wrong = {n: () if each.plan else each.problems for n, each in every.items()}
        return first._replace(plan=None, problems=racing.name_entries(look, wrong))
    plan = racing.combine_shapes(look, plans)
    return first._replace(plan=plan, problems=plan.notes, checks=plan.checks)


def _examine_programs(look: Inputs) -> Examined:
    """A job with one program, steps or groups."""
    if look.job.groups:
        return _examine_groups(look)
    return _examine_steps(look) if look.job.steps else _examine(look)


def _examine_groups(look: Inputs) -> Examined:
    """Each group as a job of its own, then the job with the nodes of all."""
    looks = group_jobs.split_groups(look)
    every = [_examine(each) for each in looks]
    checked = tuple(dict.fromkeys(check for each in every for check in each.checks))
    plans = [(each.plan, each.program_files) for each in every if each.plan is not None]
    wrong = tuple(part_images.check_images(look, looks))
    if wrong or len(plans) < len(every):
        return Examined(None, step_jobs.join_notes([wrong, *(e.problems for e in every)]), checked)
    parts = group_jobs.widen_all(look, looks, [plan for plan, _ in plans])
    joined = [_examine(each) for each in parts]
    planned = [(each.plan, each.program_files) for each in joined if each.plan is not None]
    wholes = [plan for plan, _ in planned]
    wrong = step_jobs.join_notes([each.problems for each in joined if each.plan is None])
    wrong += tuple(component_jobs.check_components(look, looks))
    if len(wholes) == len(parts):
        wrong += tuple(component_jobs.check_carried(look, parts, wholes))
    if wrong:
        return Examined(None, wrong, checked)
    plan = group_jobs.combine_plans(look, looks, plans, planned)
    plan = plan._replace(components=component_jobs.plan_components(parts, wholes))
    trained = next((each.planner_request for each in every if each.planner_request), None)
    return Examined(plan, plan.notes, checked, trained)


def _examine_steps(look: Inputs) -> Examined:
    """Each step as a job of its own, then the job that runs them all."""
    looks = step_jobs.split_steps(look)
    every = [_examine(each) for each in looks]
    checked = tuple(dict.fromkeys(check for each in every for check in each.checks))
    plans = [(each.plan, each.program_files) for each in every if each.plan is not None]
    wrong = tuple(part_images.check_images(look, looks))
    if wrong or len(plans) < len(every):
        return Examined(None, step_jobs.join_notes([wrong, *(e.problems for e in every)]), checked)
    plan = step_jobs.combine_plans(look, plans)
    widest = max(looks, key=lambda each: _count_cpus(plans[looks.index(each)][0].shape))
    whole = _examine(
        widest._replace(spec=widest.spec._replace(value=widest.job.replace(nodes=look.job.nodes)))
    )
    if whole.plan is None:
        return Examined(None, whole.problems, checked)
    plan = plan._replace(directives=whole.plan.directives, race=whole.plan.race)
    trained = next((each.planner_request for each in every if each.planner_request), None)
    return Examined(plan, plan.notes, checked, trained)


def _count_cpus(size: Shape) -> int:
    """The CPUs of a node that a step asks for; none where it takes whole nodes."""
    return size.tasks_per_node * (size.cpus_per_task or 0)


def _examine(look: Inputs) -> Examined:
    """The plan and its checks of a job with one program."""
    sized = Sized()
    runs = program.read(look.job.run, get_facts(look.job.launcher.type or "").rank_command)
    size, launcher = decide_shape(look, runs, sized)
    warning = directives.plan_stop(look, sized)
    wrong = [
        *sized.problems,
        *container_checks.check_container(look, launcher.value),
        *launcher_limits.check_launcher(look, launcher.value, size),
        *preparing.check_scopes(look),
        *launcher_limits.check_recipe(look, launcher.value),
    ]
    blocked = bool(wrong)
    trained = training.Trained()
    try:
        trained = training.plan_training(look, size, launcher.value, runs, sized)
    except Invalid as error:
        wrong += error.problems
    saves = saving.plan_saving(look, size, saving.SavingInputs(warning, runs, trained.saves), sized)
    traced = profiling_steps.plan_profile(look, size, saves.runs, trained, sized)
    parts = (*trained.parts, saves.part, traced.part)
    checked = (
        *checks.run_checks(look, size, launcher.value),
        *(c for part in parts for c in part.checks),
    )
    if not blocked:
        decided = _Decided(size, launcher, saves.stop, traced.runs, trained, parts, checked)
        try:
            plan = _decide(look, decided, sized)
        except Invalid as error:
            wrong += error.problems
    if not any(problem.severity == "error" for problem in wrong):
        own = (
            *parts,
            launch(launcher.value, _request(look, size, launcher, trained.launcher)).part,
        )
        names = {f.path for part in own for f in part.files} | {site_runtimes.EDF}
        names -= {saving.SENDER}
        if plan.container is not None and not plan.container.record:
            names.add(container_command.IMAGE_DIGEST)
        return Examined(plan, plan.notes, checked, trained.planner_request, frozenset(names))
    if _SIZES & {problem.code for problem in wrong}:
        checked = tuple(check for check in checked if check.code != planner_request.UNFIT)
    return Examined(None, tuple(dict.fromkeys(wrong)), checked)


_SIZES = {"J201", "J202", "J203", "J204"}
"""Codes of a shape that cannot be: in another one, other memory is needed."""


class _Decided(NamedTuple):
    """What is known before the parts of the job come together."""

    size: Shape
    launcher: Setting
    warning: StopPlan | None
    runs: program.Program
    trained: training.Trained
    parts: tuple[Part, ...]
    checks: tuple[PlanCheck, ...]


def _decide(look: Inputs, decided: _Decided, sized: Sized) -> Plan:
    """The rest of the decisions. Raises Invalid where they contradict each other."""
    size, launcher, warning, runs, trained, planned, checked = decided
    starts = launch(launcher.value, _request(look, size, launcher, trained.launcher))
    watched, watching = monitor_settings.configure_monitor(look, size, sized)
    notices, notifier = notifying.plan_notify(look, sized)
    tracked, tracking = tracking_settings.configure_tracking(look, size)
    parts = (
        sweeping.build_sweep(look),
        rank_environment.build_base(look, size, launcher.value),
        traces.build_traces(look, size),
        configure_network(look.cluster, look.widen_network(size), look.cite_cluster),
        container_command.expose_hcas(look, size),
        binding.bind_ranks(look, size, sized),
        gpu_sharing.show_gpus(look, size),
        *planned,
        starts.part,
        preflighting.choose_scripts(look, size, sized),
        watching,
        notifier,
        tracking,
        container_command.mount_code(look),
        preparing.mount_staged(look),
        hub_settings.configure_hub(look),
    )
    notes: list[Diagnostic] = [
        *sized.notes,
        *checks.note_path(look, launcher.value),
        *container_checks.list_notes(look),
        *(note for part in parts for note in part.notes),
        *(note for note in judging.list_rule_notes(look) if note.severity != "error"),
    ]
    env = rank_environment.merge(look, parts, notes)
    notes += judging.judge_variables(look, size, env)
    raise_errors(Invalid, notes)
    mounts = tuple(mount for part in parts for mount in part.mounts)
    inside = container_command.plan_container(look, size, env, mounts)
    described, handed = container_command.describe_environment(look, size, env, mounts)
    site = _site_setup(look, parts, inside=inside is not None)
    scoped = preparing.split_setup(look, starts.node.scope)
    setup = (*(line for part in parts for line in part.setup), *scoped.launcher)
    cached = caches.plan_caches(look, size, env, _software(inside, (*site, *setup)), sized)
    return Plan(
        name=look.job.name,
        cluster=look.cluster.name,
        scheduler=look.cluster.scheduler,
        shape=size,
        launcher=launcher,
        directives=directives.build_directives(look, size, warning, sized),
        env=env,
        secrets=tuple(secret.name for secret in look.job.secrets),
        site_setup=site,
        precedence=rank_environment.decide_precedence(size, env),
        setup=setup,
        node_setup=scoped.node,
        rank_setup=scoped.rank,
        prepare=preparing.plan_prepare(look, size),
        steps=_steps(look, runs, trained.args, starts._replace(before=(*starts.before, *handed))),
        files=tuple(dict.fromkeys(f for part in (*parts, described) for f in part.files)),
        head=start.build_head(look),
        start=start.build_start(
            look,
            size,
            starts,
            container_command.list_srun_options(look, env, mounts),
            container_command.name_entry(inside),
        ),
        extra=_extra(look),
        submit_options=directives.build_dependency(look),
        race=racing.plan_race(look, sized),
        stop=warning,
        container=inside,
        caches=cached,
        monitor=watched,
        notify=notices,
        preflight=preflighting.plan(look, size, env, warning),
        track=tracked,
        code_folder=look.job.workdir.at or "",
        hub=hub_settings.plan_hub(look, env),
        outputs=_outputs(look, tracked),
        elements=look.job.sweep.list_elements() if look.job.sweep else (),
        labels=look.job.labels,
        other=sized.decisions,
        configured=trained.chosen,
        estimate=trained.estimate,
        checks=checked,
        notes=tuple(notes),
        sources={
            _label(look): look.spec.digest,
            f"cluster {look.cluster.name}": look.profile.digest,
            **{
                f"extends {get_profile_name(label)}": digest
                for label, digest in look.profile.above.items()
            },
        },
    )


def _request(look: Inputs, size: Shape, launcher: Setting, config: bytes | None) -> LaunchRequest:
    asked = look.job.launcher
    if config is None and asked.config:
        config = look.facts.texts.get(asked.config)
    return LaunchRequest(
        launcher=asked,
        shape=size,
        address=start.build_address(look),
        config=config,
        place=launcher.place,
        hostfile=f"hostfile.{look.step}" if look.group else "hostfile",
    )


def _site_setup(look: Inputs, parts: tuple[Part, ...], *, inside: bool) -> tuple[Setting, ...]:
    """The cluster's lines, then the vendors' scripts, which see what the site brought."""
    site = () if inside else container_command.list_site_setup(look)
    return (*site, *(line for part in parts for line in part.scripts))


def _software(inside: ContainerPlan | None, setup: tuple[Setting, ...]) -> caches.Software:
    if inside is None:
        return caches.Software("", "", setup)
    return caches.Software(inside.runtime, inside.image, (*inside.setup, *setup))


def _steps(
    look: Inputs, runs: program.Program, args: tuple[Word, ...], starts: Launch
) -> tuple[Step, ...]:
    """What happens, in order."""
    text = program.append_args(runs, args)
    step = Step("program", "rank", text, place=look.cite_job("run"))
    before = _list_once(look, "before", look.job.before, "once per start, before the program")
    last = _list_once(look, "finally", look.job.finally_, "once, when the job ends")
    return (*before, *starts.before, starts.node, step, *last)


def _list_once(look: Inputs, key: str, lines: tuple[str, ...], why: str) -> tuple[Step, ...]:
    """Commands of the first node alone."""
    text = "\n".join(lines)
    return (Step(key, "once", text, why=why, place=look.cite_job(key)),) if text.strip() else ()


def _outputs(look: Inputs, tracked: TrackPlan | None) -> tuple[str, ...]:
    """The job's patterns, then the folders of its trackers."""
    folders = tracked.folders if tracked else ()
    return (*look.job.outputs, *(f"/{folder}/" for folder in folders))


def _extra(look: Inputs) -> tuple[Setting, ...]:
    site = look.cite_cluster("defaults", "slurm", "extra")
    asked = look.cite_job("slurm", "extra")
    return (
        *(Setting(w, SelfEvident.CLUSTER_DEFAULT, site) for w in look.cluster.defaults.slurm_extra),
        *(Setting(w, SelfEvident.AS_ASKED, asked) for w in look.job.slurm_extra),
    )


def _label(look: Inputs) -> str:
    return look.spec.label.rpartition("/")[2]
