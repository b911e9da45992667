"""docker: the command that enters the container, and which GPUs its daemon hands over.

The daemon is no process of the job, so Slurm's limits do not hold for it. Sources: NVIDIA
Container Toolkit, Specialized Configurations with Docker (``"device=A,B"`` with its quotes);
rocm.docs.amd.com, Running ROCm Docker containers (Restricting GPU access); Linux,
amdkfd/kfd_topology.c (ROCr's order; a GPU that the device cgroup forbids cannot be read).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobgen.launch import expand_args
from jobgen.model.decision import Setting
from jobgen.model.plan import Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.container_image import format_image
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.rank_environment import list_always
from jobgen.resolve.start import NODE, Lines, wrap_words
from jobgen.shell import Raw, Word, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.container import Container

_VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
_ALL_AMD: tuple[Word, ...] = ("--device=/dev/kfd", "--device=/dev/dri", "--group-add=video")
_PART_AMD: tuple[Word, ...] = ("--device=/dev/kfd", Raw('"${gpus[@]}"'), "--group-add=video")

_NVIDIA = """\
# The Docker daemon sees all GPUs of the node: pass only this job's, by UUID.
gpus=${CUDA_VISIBLE_DEVICES:-}
[[ -n $gpus ]] ||
    die 96 'CUDA_VISIBLE_DEVICES is empty: docker would use all GPUs of the node'
if [[ $gpus != *[!0-9,]* ]]; then
    gpus=$(nvidia-smi --query-gpu=uuid --format=csv,noheader -i "$gpus") ||
        die 96 "nvidia-smi does not list the GPUs $CUDA_VISIBLE_DEVICES"
fi"""

_AMD = """\
# The Docker daemon sees all GPUs of the node: pass only this job's, by render node.
mapfile -t minors < <(printf '%s\\n' /sys/class/kfd/kfd/topology/nodes/*/properties | sort -V |
    xargs cat 2>/dev/null | awk '$1 == "drm_render_minor" && $2 { print $2 }')
[[ ${ROCR_VISIBLE_DEVICES:-} =~ ^[0-9]+(,[0-9]+)*$ ]] ||
    die 96 'ROCR_VISIBLE_DEVICES lists no GPUs: docker would use all GPUs of the node'
gpus=()
for gpu in ${ROCR_VISIBLE_DEVICES//,/ }; do
    [[ -n ${minors[gpu]:-} ]] || die 96 "no GPU $gpu on this node, but in ROCR_VISIBLE_DEVICES"
    gpus+=("--device=/dev/dri/renderD${minors[gpu]}")
done"""
_RDMA = ("infiniband", "roce", "efa", "gib")
_OF_THE_NODE = (
    "SLURM_JOB_ID",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURMD_NODENAME",
    "CUDA_VISIBLE_DEVICES",
    "JOBGEN_GUARD",
)
"""What Slurm gives each task, for a runtime that takes nothing along by itself."""


class Devices(NamedTuple):
    """How ``docker run`` is given a job's GPUs."""

    options: tuple[Word, ...] = ()
    """Its options."""
    before: str = ""
    """Lines of bash that find the GPUs of the allocation first."""
    hidden: tuple[str, ...] = ()
    """Variables that must not come along: a container numbers the GPUs that it gets from 0."""


def list_devices(look: Inputs, shape: Shape) -> Devices:
    """The devices of a job of this shape on the nodes of its cluster."""
    if not shape.gpus_per_node:
        return Devices()
    if shape.gpus_per_node >= look.cluster.nodes.gpus_per_node:
        return Devices(_ALL_AMD if shape.amd else ("--gpus=all",))
    if shape.amd:
        return Devices(_PART_AMD, _AMD, _VISIBLE)
    # a comma ends the option's field, but for docker's own quotes; UUIDs come a line each
    return Devices((Raw('--gpus="\\"device=${gpus//$\'\\n\'/,}\\""'),), _NVIDIA, _VISIBLE)


def enter_docker(look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    """The command that enters the container. Nothing comes along by itself: no device, no variable,
    no user, no end with the job."""
    gpus = list_devices(look, shape)
    visible = ("ROCR_VISIBLE_DEVICES",) if shape.amd else ()
    names = dict.fromkeys((*_OF_THE_NODE, *visible, *list_always(look), *env))
    named = tuple(name for name in names if name not in gpus.hidden)
    several = look.widen_network(shape).nodes > 1
    rdma = look.cluster.network.fabric in _RDMA and several and shape.gpus_per_node
    cards: tuple[Word, ...] = ("--device=/dev/infiniband", "--cap-add=IPC_LOCK") if rdma else ()
    binds = [
        '"$JOBGEN_RUN_DIR:$JOBGEN_RUN_DIR"',
        *(quote_expandable(mount) for mount in asked.mounts),
    ]
    return (
        ("JOBGEN_GUARD=1", "exec", "docker", "run", "--rm", "--init"),
        (*gpus.options, *cards),
        (Raw('--user="$(id -u):$(id -g)"'), "--network=host", "--ipc=host"),
        # by which sh finds the container of a step or a group
        *(((Raw('--label=jobgen.step="$JOBGEN_STEP"'),),) if look.step else ()),
        ("--ulimit=memlock=-1", "--ulimit=stack=67108864"),
        *((Raw(f"--volume={bind}"),) for bind in binds),
        *wrap_words(tuple(f"--env={name}" for name in named)),
        expand_args(asked.args),
        (Raw(quote_expandable(format_image(asked.image, asked.runtime))),),
        ("bash", NODE),
    )
