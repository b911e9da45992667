"""The parts of a job come together: one environment, one setup, one Plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Invalid, raise_errors
from jobgen.fabric import configure_network
from jobgen.launch import Launch
from jobgen.model.decision import PlanCheck, SelfEvident, Setting
from jobgen.model.part_plans import ContainerPlan, StopPlan, TrackPlan
from jobgen.model.plan import Part, Plan, Shape, Step
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import (
    binding,
    caches,
    checks,
    container_checks,
    container_command,
    directives,
    gpu_sharing,
    hub_settings,
    judging,
    monitor_settings,
    notifying,
    preflighting,
    preparing,
    program,
    racing,
    rank_environment,
    start,
    sweeping,
    traces,
    tracking_settings,
    training,
)
from jobgen.resolve.inputs import Inputs, get_profile_name
from jobgen.resolve.shape import Sized

if TYPE_CHECKING:
    from collections.abc import Mapping


class Decided(NamedTuple):
    """What is known before the parts of the job come together."""

    size: Shape
    launcher: Setting
    warning: StopPlan | None
    runs: program.Program
    trained: training.Trained
    starts: Launch
    parts: tuple[Part, ...]
    """Those of the strategy, of saving and of profiling."""
    checks: tuple[PlanCheck, ...]


def assemble(look: Inputs, decided: Decided, sized: Sized) -> Plan:
    """The rest of the decisions. Raises Invalid where they contradict each other."""
    size, starts = decided.size, decided.starts
    monitor, watching = monitor_settings.configure_monitor(look, size, sized)
    notices, notifier = notifying.plan_notify(look, sized)
    track, tracking = tracking_settings.configure_tracking(look, size)
    parts = _order_parts(look, decided, sized, (watching, notifier, tracking))
    env, notes = _merge_environment(look, decided, sized, parts)
    mounts = tuple(mount for part in parts for mount in part.mounts)
    inside = container_command.plan_container(look, size, env, mounts)
    described, handed = container_command.describe_environment(look, size, env, mounts)
    options = container_command.list_srun_options(look, env, mounts)
    site = _list_site_setup(look, parts, inside=inside is not None)
    scoped = preparing.split_setup(look, starts.node.scope)
    setup = (*(line for part in parts for line in part.setup), *scoped.launcher)
    software = _describe_software(inside, (*site, *setup))
    plan = Plan(
        name=look.job.name,
        cluster=look.cluster.name,
        scheduler=look.cluster.scheduler,
        shape=size,
        launcher=decided.launcher,
        env=env,
        secrets=tuple(secret.name for secret in look.job.secrets),
        site_setup=site,
        setup=setup,
        node_setup=scoped.node,
        rank_setup=scoped.rank,
        caches=caches.plan_caches(look, size, env, software, sized),
        directives=directives.build_directives(look, size, decided.warning, sized),
        steps=_list_steps(look, decided, (*starts.before, *handed)),
        files=tuple(dict.fromkeys(f for part in (*parts, described) for f in part.files)),
        head=start.build_head(look),
        start=start.build_start(look, size, starts, options, container_command.name_entry(inside)),
        container=inside,
        monitor=monitor,
        notify=notices,
        track=track,
        notes=notes,
    )
    return _complete(look, plan, decided, sized)


def _complete(look: Inputs, plan: Plan, decided: Decided, sized: Sized) -> Plan:
    """The plan with everything that no other part of it depends on."""
    size, env, stop = plan.shape, plan.env, decided.warning
    return plan._replace(
        precedence=rank_environment.decide_precedence(size, env),
        prepare=preparing.plan_prepare(look, size),
        extra=_list_extra(look),
        submit_options=directives.build_dependency(look),
        race=racing.plan_race(look, sized),
        stop=stop,
        preflight=preflighting.plan(look, size, env, stop),
        code_folder=look.job.workdir.at or "",
        hub=hub_settings.plan_hub(look, env),
        outputs=_list_outputs(look, plan.track),
        elements=look.job.sweep.list_elements() if look.job.sweep else (),
        labels=look.job.labels,
        other=sized.decisions,
        configured=decided.trained.chosen,
        estimate=decided.trained.estimate,
        checks=decided.checks,
        sources=_list_sources(look),
    )


def _order_parts(
    look: Inputs, decided: Decided, sized: Sized, watchers: tuple[Part, ...]
) -> tuple[Part, ...]:
    """What each subject contributes, in the order in which scripts have it."""
    size = decided.size
    return (
        sweeping.build_sweep(look),
        rank_environment.build_base(look, size, decided.launcher.value),
        traces.build_traces(look, size),
        configure_network(look.cluster, look.widen_network(size), look.cite_cluster),
        container_command.expose_hcas(look, size),
        binding.bind_ranks(look, size, sized),
        gpu_sharing.show_gpus(look, size),
        *decided.parts,
        decided.starts.part,
        preflighting.choose_scripts(look, size, sized),
        *watchers,
        container_command.mount_code(look),
        preparing.mount_staged(look),
        hub_settings.configure_hub(look),
    )


def _merge_environment(
    look: Inputs, decided: Decided, sized: Sized, parts: tuple[Part, ...]
) -> tuple[Mapping[str, Setting], tuple[Diagnostic, ...]]:
    """The variables of every rank, and all notes. Raises Invalid."""
    notes: list[Diagnostic] = [
        *sized.notes,
        *checks.note_path(look, decided.launcher.value),
        *container_checks.list_notes(look),
        *(note for part in parts for note in part.notes),
        *(note for note in judging.list_rule_notes(look) if note.severity != "error"),
    ]
    env = rank_environment.merge(look, parts, notes)
    notes += judging.judge_variables(look, decided.size, env)
    raise_errors(Invalid, notes)
    return env, tuple(notes)


def _list_site_setup(look: Inputs, parts: tuple[Part, ...], *, inside: bool) -> tuple[Setting, ...]:
    """The cluster's lines, then the vendors' scripts, which see what the site brought."""
    site = () if inside else container_command.list_site_setup(look)
    return (*site, *(line for part in parts for line in part.scripts))


def _describe_software(inside: ContainerPlan | None, setup: tuple[Setting, ...]) -> caches.Software:
    if inside is None:
        return caches.Software("", "", setup)
    return caches.Software(inside.runtime, inside.image, (*inside.setup, *setup))


def _list_steps(look: Inputs, decided: Decided, handed: tuple[Step, ...]) -> tuple[Step, ...]:
    """What happens, in order; ``handed`` is done right before the start."""
    text = program.append_args(decided.runs, decided.trained.args)
    step = Step("program", "rank", text, place=look.cite_job("run"))
    before = _list_once(look, "before", look.job.before, "once per start, before the program")
    last = _list_once(look, "finally", look.job.finally_, "once, when the job ends")
    return (*before, *handed, decided.starts.node, step, *last)


def _list_once(look: Inputs, key: str, lines: tuple[str, ...], why: str) -> tuple[Step, ...]:
    """Commands of the first node alone."""
    text = "\n".join(lines)
    return (Step(key, "once", text, why=why, place=look.cite_job(key)),) if text.strip() else ()


def _list_outputs(look: Inputs, tracked: TrackPlan | None) -> tuple[str, ...]:
    """The job's patterns, then the folders of its trackers."""
    folders = tracked.folders if tracked else ()
    return (*look.job.outputs, *(f"/{folder}/" for folder in folders))


def _list_extra(look: Inputs) -> tuple[Setting, ...]:
    site = look.cite_cluster("defaults", "slurm", "extra")
    asked = look.cite_job("slurm", "extra")
    return (
        *(Setting(w, SelfEvident.CLUSTER_DEFAULT, site) for w in look.cluster.defaults.slurm_extra),
        *(Setting(w, SelfEvident.AS_ASKED, asked) for w in look.job.slurm_extra),
    )


def _list_sources(look: Inputs) -> dict[str, str]:
    """Label → digest of the job file, the profile, and the profiles that it extends."""
    above = look.profile.above.items()
    return {
        look.spec.label.rpartition("/")[2]: look.spec.digest,
        f"cluster {look.cluster.name}": look.profile.digest,
        **{f"extends {get_profile_name(label)}": digest for label, digest in above},
    }
