"""What is looked at before anything happens, for the last lines of a plan."""

from __future__ import annotations

import posixpath

from jobgen.model.plan import Check, Shape
from jobgen.resolve.allocation import ask_memory, merge_options, takes_all
from jobgen.resolve.look import Look
from jobgen.resolve.program import Program


def checks(look: Look, program: Program, shape: Shape) -> tuple[Check, ...]:
    """Every check, good news too."""
    return (
        *_script(look, program),
        *_limits(look),
        *_secrets(look),
        *_after(look),
        *_memory(look, shape),
    )


def _script(look: Look, program: Program) -> list[Check]:
    files, script = look.facts.workdir_files, program.script
    if files is None or not script or script.startswith("/") or "$" in script:
        return []
    path = posixpath.normpath(script)
    if path in files:
        return [Check("ok", f"{path} is in the workdir")]
    base = posixpath.basename(path)
    near = sorted(f for f in files if posixpath.basename(f) == base)
    hint = f"did you mean {near[0]}?" if near else "is it ignored, or in another folder?"
    message = f"{path} is not among the files of the workdir ({look.by_job('run')})"
    return [Check("fail", message, "J220", hint)]


def _limits(look: Look) -> list[Check]:
    limit = look.cluster.limits.time
    if limit is None or look.job.time > limit:
        return []
    return [Check("ok", f"{look.job.time} is within the {limit} of {look.cluster.name}")]


def _secrets(look: Look) -> list[Check]:
    found = []
    for secret in look.job.secrets:
        if secret.name in look.facts.secrets:
            found.append(Check("ok", f"{secret.name} comes from {look.facts.secrets[secret.name]}"))
            continue
        where = f"the environment ({secret.ref})" if secret.source == "env" else secret.ref
        hint = f"export {secret.ref}=…" if secret.source == "env" else "make the file"
        found.append(Check("warn", f"{secret.name} is not in {where}", "J221", hint))
    return found


def _after(look: Look) -> list[Check]:
    found = []
    for name in look.job.after:
        if name in look.facts.after:
            found.append(Check("ok", f"waits for {name} ({look.facts.after[name]})"))
            continue
        message = f"after: no run named '{name}' is known on {look.cluster.name}"
        found.append(Check("fail", message, "J209", "submit it first; jobgen ls -a lists runs"))
    return found


def _memory(look: Look, shape: Shape) -> list[Check]:
    if look.local or not shape.gpus_per_node or not takes_all(look, shape.gpus_per_node):
        return []
    options = {"mem-per-cpu", "mem-per-gpu"} & merge_options(look).keys()
    if options or ask_memory(look, shape) is not None:
        return []
    message = f"no memory is requested: {look.cluster.name} refuses --mem=0"
    hint = "set mem: to what a node has, in GiB; the site's default may be small"
    return [Check("warn", message, "J222", hint)]
