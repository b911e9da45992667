"""How the batch shell starts node.sh on every node, and where the ranks meet."""

from __future__ import annotations

from jobgen.launch import Launch
from jobgen.model.plan import ContainerPlan, Setting, Shape
from jobgen.resolve.look import Look
from jobgen.shell import Raw, Word, quote

LOOPBACK = "127.0.0.1"
NODE = Raw('"$JOBGEN_BUNDLE_DIR/node.sh"')
ENTER = Raw('"$JOBGEN_BUNDLE_DIR/container.sh"')

Lines = tuple[tuple[Word, ...], ...]


def head(look: Look) -> Setting:
    """MASTER_ADDR as bash. Never a fall-back: a wrong guess makes every node wait for itself."""
    if look.local:
        why = "every simulated node is this machine"
        return Setting(LOOPBACK, why, look.by_cluster("scheduler"))
    suffix = look.cluster.rdzv_host_suffix
    if not suffix:
        return Setting('"${HOSTS[0]}"', "the job's first node", "rule head")
    why = "the job's first node, by its name on the training network"
    return Setting(f'"${{HOSTS[0]}}"{quote(suffix)}', why, look.by_cluster("rdzv_host_suffix"))


def address(look: Look) -> str:
    """This node's address for the other nodes, as bash for the node."""
    if look.local:
        return LOOPBACK
    return f'"$SLURMD_NODENAME"{quote(look.cluster.rdzv_host_suffix or "")}'.removesuffix("''")


def start(look: Look, shape: Shape, starts: Launch, inside: ContainerPlan | None) -> Lines:
    """The words that start node.sh: srun, or bash on the head alone."""
    if starts.on == "head":
        return (("bash", NODE),)
    elastic = shape.min_nodes is not None
    nodes: Word = Raw('"$SLURM_NNODES"') if elastic else str(shape.nodes)
    tasks: Word = nodes if elastic else str(shape.nodes * shape.tasks_per_node)
    size = (
        Raw(f"--nodes={nodes}"),
        Raw(f"--ntasks={tasks}"),
        f"--ntasks-per-node={shape.tasks_per_node}",
        *((f"--cpus-per-task={shape.cpus_per_task}",) if shape.cpus_per_task else ()),
    )
    bind = "cores" if starts.on == "rank" and shape.cpus_per_task else "none"
    binding = (f"--cpu-bind={bind}", *(("--gpu-bind=none",) if shape.gpus_per_node else ()))
    # a lost node must end a fixed world at once, and must not end an elastic one
    ends = (
        ("--kill-on-bad-exit=0", "--wait=0") if elastic else ("--kill-on-bad-exit=1", "--wait=60")
    )
    outside = inside is not None and inside.runtime != "pyxis"
    return (
        ("srun", *size),
        (*binding, *ends, "--mpi=none", *starts.srun),
        *_pyxis(inside),
        ("bash", ENTER if outside else NODE),
    )


def _pyxis(inside: ContainerPlan | None) -> Lines:
    """The container as options of srun, which its plug-in adds."""
    if inside is None or inside.runtime != "pyxis":
        return ()
    mounts = ",".join(['"$JOBGEN_RUN_DIR:$JOBGEN_RUN_DIR"', *(_mounted(m) for m in inside.mounts)])
    return (
        (f"--container-image={inside.image}",),
        (Raw(f"--container-mounts={mounts}"),),
        # the image's own values would win over variables that are not named
        (f"--container-env={','.join(inside.forward)}",),
        *((inside.args,) if inside.args else ()),
    )


def _mounted(mount: object) -> str:
    from jobgen.model.plan import Mount
    from jobgen.shell import expandable

    assert isinstance(mount, Mount)  # noqa: S101
    parts = [mount.source, mount.target, *(["ro"] if mount.readonly else [])]
    return expandable(":".join(parts))
