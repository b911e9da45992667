"""What is looked at before anything happens, for the last lines of a plan."""

from __future__ import annotations

from jobgen.errors import Diagnostic
from jobgen.model.decision import PlanCheck
from jobgen.model.launchers import get_facts, name_agent, name_starter
from jobgen.model.plan import Shape
from jobgen.resolve.allocation import ask_memory, merge_options, takes_all
from jobgen.resolve.checkpoint_folder import check_folder
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.run_files import check_files, check_scripts

UNSET = "J221"
"""The code of a secret that is not set: without it nothing can be submitted."""


def run_checks(look: Inputs, shape: Shape, launcher: str) -> tuple[PlanCheck, ...]:
    """Every check, good news too."""
    return (
        *check_scripts(look.spec, look.facts.workdir_files),
        *check_files(look),
        *_start(look, launcher),
        *_limits(look),
        *_secrets(look),
        *_after(look),
        *_memory(look, shape),
        *check_folder(look, shape),
        *_rules(look),
    )


def note_path(look: Inputs, launcher: str) -> list[Diagnostic]:
    """What the nodes of a cluster must have, where nothing of the job brings its launcher: the job
    does not inherit the environment of the shell that submits it."""
    if look.local or get_facts(launcher).task != "agent" or _may_set_path(look):
        return []
    program = next(iter(look.job.launcher.command), name_agent(launcher))
    message = f"setup is not set: {program} must be on PATH on the nodes of {look.cluster.name}"
    hint = "activate an environment in `setup`"
    if look.job.nodes == 1 or not name_starter(launcher, look.job.launcher.ssh):
        hint += ", or set `container`"
    return [Diagnostic("J259", message, None, hint, severity="note")]


def _may_set_path(look: Inputs) -> bool:
    """Whether something of the job or the profile may put the launcher on PATH."""
    job, defaults = look.job, look.cluster.defaults
    own = (
        job.setup or job.setup_scopes.node or defaults.setup or job.container or defaults.container
    )
    return bool(own) or "PATH" in {**defaults.env, **job.env}


def _start(look: Inputs, launcher: str) -> list[PlanCheck]:
    """Whether a job on this machine finds its launcher, where nothing of its own may bring it."""
    brought, agent = _may_set_path(look) or look.job.launcher.command, name_agent(launcher)
    if brought or agent not in look.facts.missing_launchers:
        return []
    message = f"{agent} is not on PATH here, and the job has no setup"
    hint = "activate an environment that has it, or add setup: to the job"
    return [PlanCheck("warn", message, "J437", hint)]


def _rules(look: Inputs) -> list[PlanCheck]:
    """What rules call an error in files that could be used; the judge speaks again with more."""
    from jobgen.resolve.judging import list_rule_notes

    return [
        PlanCheck("fail", rule.message, rule.code, rule.hint, rule.place)
        for rule in list_rule_notes(look)
        if rule.severity == "error"
    ]


def _limits(look: Inputs) -> list[PlanCheck]:
    limit = look.cluster.limits.time
    if limit is None or max(look.times) > limit:
        return []
    return [PlanCheck("ok", f"{look.time} is within the {limit} limit of {look.cluster.name}")]


def _secrets(look: Inputs) -> list[PlanCheck]:
    found = []
    for secret in look.job.secrets:
        if secret.name in look.facts.secrets:
            found.append(
                PlanCheck("ok", f"{secret.name} is read from {look.facts.secrets[secret.name]}")
            )
            continue
        if secret.source == "env":
            renamed = f" (for {secret.name})" if secret.ref != secret.name else ""
            message = f"{secret.ref} is not set in the environment{renamed}"
            hint = f"export {secret.ref}=…"
        else:
            message, hint = f"{secret.ref} does not exist (for {secret.name})", "create the file"
        found.append(PlanCheck("fail", message, UNSET, hint))
    return found


def _after(look: Inputs) -> list[PlanCheck]:
    found: list[PlanCheck] = []
    known = look.facts.after
    for index, name in enumerate(look.job.after if known is not None else ()):
        if known and known.get(name):
            found.append(PlanCheck("ok", f"waits for {name} ({known[name]})"))
            continue
        message = f"after: unknown run '{name}' on {look.cluster.name}"
        hint = "submit that job first; list runs with: jobgen ls -a"
        if known and name in known:
            message = f"after: {name} is a race, and none of its jobs has started"
            hint = f"submit this job when it has started: jobgen show {name}"
        if name in look.facts.chains:
            message = f"after: {name} is a chain, and which of its jobs ends the run is not known"
            hint = f"submit this job when it has ended: jobgen wait {name}"
        if name in look.facts.steps:
            message = f"after: {name} runs inside an allocation, and no job id stands for its end"
            hint = f"remove it, and submit this job when {name} has ended: jobgen wait {name}"
        found.append(PlanCheck("fail", message, "J209", hint, look.spec.find_place("after", index)))
    return found


def _memory(look: Inputs, shape: Shape) -> list[PlanCheck]:
    if look.local or not shape.gpus_per_node or not takes_all(look, shape.gpus_per_node):
        return []
    options = {"mem-per-cpu", "mem-per-gpu"} & merge_options(look).keys()
    if options or ask_memory(look, shape) is not None:
        return []
    message = f"no memory is requested, because {look.cluster.name} rejects --mem=0"
    hint = "set mem: to the memory of a node, in GiB; the default may be small"
    return [PlanCheck("warn", message, "J222", hint)]
