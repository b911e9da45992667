"""What every rank finds in its environment, and who said so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from jobgen.errors import Diagnostic
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.launchers import LAUNCHERS
from jobgen.model.plan import Part, Precedence, Shape
from jobgen.resolve.checkpoint_folder import choose_folder
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.start import CPUS_PER_RANK
from jobgen.shell import list_names

ALWAYS = (
    "JOBGEN_NAME",
    "JOBGEN_RUN_DIR",
    "JOBGEN_TOKEN",
    "JOBGEN_BUNDLE_DIR",
    "JOBGEN_WORK_DIR",
    "JOBGEN_STATE_DIR",
    "JOBGEN_LOG_DIR",
    "JOBGEN_STOP_FILE",
    "JOBGEN_STOPPED_FILE",
    "JOBGEN_REPORT_FILE",
    "JOBGEN_RESTART",
    "JOBGEN_WORLD_SIZE",
    "JOBGEN_MIN_WORLD_SIZE",
    "JOBGEN_RANKS_PER_NODE",
    CPUS_PER_RANK,
    "JOBGEN_SECRETS",
    "MASTER_ADDR",
    "MASTER_PORT",
    "RDZV_ID",
)
"""What job.sbatch exports in every job, for containers that have to be told names."""


def list_always(look: Inputs) -> tuple[str, ...]:
    """What job.sbatch exports in this job."""
    if not look.step:
        return ALWAYS
    of_groups = ("JOBGEN_GUARD", *look.group.variables) if look.group else ()
    of_rounds = ("JOBGEN_ROUND",) if look.job.repeat > 1 else ()
    return (*ALWAYS, "JOBGEN_STEP", *of_rounds, *of_groups)


_RENDEZVOUS = ("MASTER_ADDR", "MASTER_PORT", "RDZV_ID")
_GPUS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""What Slurm says of a task's GPUs."""


def build_base(look: Inputs, shape: Shape, launcher: str) -> Part:
    """What holds for every job: where checkpoints go, threads, NCCL's warnings."""
    env = {"JOBGEN_CHECKPOINT_DIR": choose_folder(look, shape)}
    if LAUNCHERS[launcher].task != "command" or look.job.launcher.type is None:
        threads = _threads(shape)
        if threads:
            env["OMP_NUM_THREADS"] = threads
    wide = look.widen_network(shape)
    if wide.gpus_per_node and wide.nodes * wide.gpus_per_node > 1:
        env |= _nccl_debug(look, wide)
    return Part("jobgen", env=env, notes=tuple(_unknown_network(look, wide)))


def _nccl_debug(look: Inputs, shape: Shape) -> dict[str, Setting]:
    """What NCCL prints: why it fails; on an unknown network also what it chose."""
    if ("nccl", "debug") in look.spec.places:
        place = look.cite_job("nccl", "debug")
        return {"NCCL_DEBUG": Setting(look.job.nccl.debug, SelfEvident.AS_ASKED, place)}
    if not _is_unknown(look, shape):
        why = "log NCCL warnings and errors only"
        return {"NCCL_DEBUG": Setting(look.job.nccl.debug, why, cite_rule("nccl"))}
    why = "unknown network: log which one NCCL chooses (NET/IB, NET/Socket)"
    place = look.cite_cluster("network", "fabric")
    return {
        "NCCL_DEBUG": Setting("INFO", why, place),
        "NCCL_DEBUG_SUBSYS": Setting("INIT,NET", "log only these subsystems", place),
    }


def _is_unknown(look: Inputs, shape: Shape) -> bool:
    return shape.nodes > 1 and look.cluster.network.fabric == "unknown"


def _unknown_network(look: Inputs, shape: Shape) -> list[Diagnostic]:
    """NCCL on a network that the profile does not know may use TCP, and the job still runs."""
    if not shape.gpus_per_node or not _is_unknown(look, shape):
        return []
    name = look.cluster.name
    message = f"the network of {name} is unknown: NCCL falls back to TCP if it finds no other"
    hint = f"to find out: jobgen cluster check {name}"
    place = look.profile.find_place("network", "fabric")
    return [Diagnostic("J229", message, place, hint, severity="warning")]


def _threads(shape: Shape) -> Setting | None:
    """OMP_NUM_THREADS: the rank's share of CPUs; torchrun would set 1, others all cores."""
    if shape.cpus_per_task is None and shape.whole_nodes and shape.world > 1:
        why = "CPUs per rank; torchrun's default is 1"
        return Setting(f"${CPUS_PER_RANK}", why, cite_rule("threads"))
    if shape.cpus_per_task is None:
        if shape.world == 1:
            return None
        why = "CPUs per rank unknown: 1 thread avoids oversubscription"
        return Setting("1", why, cite_rule("threads"))
    each = shape.ranks_per_node // shape.tasks_per_node
    count = max(1, shape.cpus_per_task // each)
    why = f"CPUs per rank ({shape.cpus_per_task}); torchrun's default is 1"
    return Setting(str(count), why, cite_rule("threads"))


def merge(look: Inputs, parts: Iterable[Part], notes: list[Diagnostic]) -> dict[str, Setting]:
    """The parts' variables, then the cluster's, nccl.env and env: the later wins, and says so."""
    merged, problems = _join(parts)
    notes += problems
    site = {
        name: Setting(
            value, SelfEvident.CLUSTER_DEFAULT, look.cite_cluster("defaults", "env", name)
        )
        for name, value in look.cluster.defaults.env.items()
    }
    tuned = {
        name: Setting(value, SelfEvident.AS_ASKED, look.cite_job("nccl", "env", name))
        for name, value in look.job.nccl.env.items()
    }
    asked = {
        name: Setting(value, SelfEvident.AS_ASKED, look.cite_job("env", name))
        for name, value in look.job.env.items()
    }
    for layer in (site, tuned, asked):
        _over(merged, layer, notes)
    return merged


def decide_precedence(shape: Shape, env: Mapping[str, Setting]) -> Precedence:
    """What no script of the site or of a vendor may change.

    A value that extends itself (``PATH: $HOME/bin:$PATH``) is set again instead, because the old
    one does not hold what the site's modules have added.
    """
    again = {name: setting for name, setting in env.items() if name in list_names(setting.value)}
    names = tuple(name for name in (*_RENDEZVOUS, *env) if name not in again)
    gpus = _GPUS if shape.gpus_per_node else ()
    return Precedence(tuple(name for name in gpus if name not in env), names, again)


def _join(parts: Iterable[Part]) -> tuple[dict[str, Setting], list[Diagnostic]]:
    merged: dict[str, Setting] = {}
    owner: dict[str, str] = {}
    problems = []
    for part in parts:
        for name, setting in part.env.items():
            if name in merged and merged[name].value != setting.value:
                message = (
                    f"conflicting {name}: {owner[name]} sets {merged[name].value}, "
                    f"{part.name} sets {setting.value}"
                )
                problems.append(Diagnostic("J211", message, hint="set it under env:, which wins"))
            merged[name] = setting
            owner[name] = part.name
    return merged, problems


def _over(
    merged: dict[str, Setting], layer: Mapping[str, Setting], notes: list[Diagnostic]
) -> None:
    """Put a layer over the others. A variable that moves comes later, so $NAME sees the rest."""
    for name, setting in layer.items():
        before = merged.pop(name, None)
        why = setting.why
        if before is not None and before.value != setting.value:
            why += f", overrides {before.value} ({before.place})"
            notes.append(
                Diagnostic(
                    "J212",
                    (
                        f"{name}={setting.value} ({setting.place}) overrides {before.value} "
                        f"({before.why})"
                    ),
                    severity="note",
                )
            )
        merged[name] = Setting(setting.value, why, setting.place)
