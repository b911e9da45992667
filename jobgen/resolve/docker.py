"""docker: which GPUs its daemon hands over.

The daemon is no process of the job, so Slurm's limits do not hold for it. Sources: NVIDIA
Container Toolkit, Specialized Configurations with Docker (``"device=A,B"`` with its quotes);
rocm.docs.amd.com, Running ROCm Docker containers (Restricting GPU access); Linux,
amdkfd/kfd_topology.c (ROCr's order; a GPU that the device cgroup forbids cannot be read).
"""

from __future__ import annotations

from jobgen.model.plan import Shape
from jobgen.named_tuple import NamedTuple
from jobgen.shell import Raw, Word

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


class Devices(NamedTuple):
    """How ``docker run`` is given a job's GPUs."""

    options: tuple[Word, ...] = ()
    """Its options."""
    before: str = ""
    """Lines of bash that find the GPUs of the allocation first."""
    hidden: tuple[str, ...] = ()
    """Variables that must not come along: a container numbers the GPUs that it gets from 0."""


def list_devices(shape: Shape, there: int) -> Devices:
    """The devices of a job of this shape on nodes with ``there`` GPUs."""
    if not shape.gpus_per_node:
        return Devices()
    if shape.gpus_per_node >= there:
        return Devices(_ALL_AMD if shape.amd else ("--gpus=all",))
    if shape.amd:
        return Devices(_PART_AMD, _AMD, _VISIBLE)
    # a comma ends the option's field, but for docker's own quotes; UUIDs come a line each
    return Devices((Raw('--gpus="\\"device=${gpus//$\'\\n\'/,}\\""'),), _NVIDIA, _VISIBLE)
