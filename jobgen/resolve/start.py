"""How the batch shell starts node.sh on every node, and the address of the rendezvous."""

from __future__ import annotations

from jobgen.launch import Launch
from jobgen.model.decision import Setting, cite_rule
from jobgen.model.plan import GroupRole, Shape
from jobgen.resolve.allocation import name_gpus, unbind_gpus
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.packing import place_step
from jobgen.shell import Raw, Word, quote

LOOPBACK = "127.0.0.1"
NODE = Raw('"$JOBGEN_BUNDLE_DIR/node.sh"')
ENTER = Raw('"$JOBGEN_BUNDLE_DIR/container.sh"')

CPUS_PER_RANK = "JOBGEN_CPUS_PER_RANK"

Lines = tuple[tuple[Word, ...], ...]


def build_head(look: Inputs) -> Setting:
    """MASTER_ADDR as bash. Never a fall-back: a wrong guess makes every node wait for itself."""
    if look.local:
        why = "all simulated nodes are this machine"
        return Setting(LOOPBACK, why, look.cite_cluster("scheduler"))
    suffix = look.cluster.rdzv_host_suffix
    if not suffix:
        return Setting("${HOSTS[0]}", "first node of the job", cite_rule("head"))
    why = "first node of the job, by its name on the training network"
    value = f"${{HOSTS[0]}}{quote(suffix)}"
    return Setting(value, why, look.cite_cluster("rdzv_host_suffix"))


def build_address(look: Inputs) -> str:
    """This node's address for the other nodes, as bash for the node."""
    if look.local:
        return LOOPBACK
    suffix = look.cluster.rdzv_host_suffix
    return f'"$SLURMD_NODENAME"{quote(suffix) if suffix else ""}'


def build_start(
    look: Inputs, shape: Shape, starts: Launch, container: Lines, entry: tuple[Word, ...]
) -> Lines:
    """The words that start node.sh: srun, or bash on the first node alone.

    ``container`` are srun's options of a container; ``entry`` is what each node runs.
    """
    if starts.node.scope == "once":
        return (("bash", NODE),)
    elastic = shape.min_nodes is not None
    # what srun itself needs is repeated: no default of its own holds in all releases of Slurm
    nodes: Word = Raw('"$SLURM_NNODES"') if elastic else str(shape.nodes)
    tasks: Word = nodes if elastic else str(shape.nodes * shape.tasks_per_node)
    size = (
        Raw(f"--nodes={nodes}"),
        Raw(f"--ntasks={tasks}"),
        f"--ntasks-per-node={shape.tasks_per_node}",
        *_cpus(shape),
    )
    # ranks of several GPUs bind themselves, near them; cores would be next to each other
    alone = starts.node.scope == "rank" and shape.gpus_per_node < 2
    binding = "cores" if look.job.bind == "auto" and alone and size[3:] else "none"
    # A failed task ends a world of fixed size. One that has finished ends nothing: rank 0 may still
    # write the last checkpoint, and without --wait=0 the site's WaitTime kills it.
    ends = (f"--kill-on-bad-exit={0 if elastic else 1}", "--wait=0")
    return (
        ("srun", *size),
        (
            *name_gpus(look, shape),
            f"--cpu-bind={binding}",
            *_gpu_binding(look, shape),
            *ends,
            "--mpi=none",
            *_nodes_of_part(look),
            *starts.srun,
        ),
        place_step(shape),
        *container,
        entry,
    )


def _nodes_of_part(look: Inputs) -> tuple[Word, ...]:
    """Which nodes of the job a step or a group has; one beside another group shares them."""
    if not look.step:
        return ()
    role = look.group
    if role is None:
        return ("--relative=0",)
    shares = ("--overlap",) if role.on else ()
    return (*name_component(role), f"--relative={role.first - role.offset}", *shares)


def name_component(role: GroupRole | None) -> tuple[Word, ...]:
    """The option of srun that names the component of a group; none if the job has only one."""
    if role is None or role.component is None:
        return ()
    return (f"--het-group={role.component}",)


def _cpus(shape: Shape) -> tuple[Word, ...]:
    """``--cpus-per-task``: of a whole node what the batch shell found there."""
    if shape.cpus_per_task:
        return (f"--cpus-per-task={shape.cpus_per_task}",)
    if not shape.whole_nodes:
        return ()
    return (Raw(f'--cpus-per-task="${CPUS_PER_RANK if shape.tasks_per_node > 1 else "cpus"}"'),)


def _gpu_binding(look: Inputs, shape: Shape) -> tuple[Word, ...]:
    """The words against a default of the site's, for a step with one task a node.

    From several tasks they take CUDA_VISIBLE_DEVICES away up to Slurm 23.02, and the tasks would
    use any GPU of the node; without them each sees all GPUs of the step.
    """
    return unbind_gpus(look, shape) if shape.tasks_per_node == 1 else ()


def wrap_words(words: tuple[Word, ...], count: int = 4) -> Lines:
    """A few words a line."""
    return tuple(words[i : i + count] for i in range(0, len(words), count))
