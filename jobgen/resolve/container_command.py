"""The container around the program: the job's, else the cluster's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Place
from jobgen.launch import expand_args
from jobgen.model.bundle import BundleFile
from jobgen.model.container import BY_SRUN
from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.part_plans import ContainerPlan, Mount
from jobgen.model.plan import Part, Shape, Step
from jobgen.payload import text
from jobgen.resolve import registry_login
from jobgen.resolve.docker import Devices, list_devices
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.rank_environment import decide_precedence, list_always
from jobgen.resolve.site_runtimes import (
    EDF,
    INSIDE,
    SET_AGAIN,
    enter_shifter,
    hand_over,
    name_shifter_image,
    write_edf,
)
from jobgen.resolve.start import ENTER, NODE, Lines
from jobgen.shell import Raw, Word, quote, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.container import Container

IMAGE_DIGEST = "image_digest.sh"
_AGAIN = "Set again inside, because the image's own variables would win."
_WHY = {"apptainer": _AGAIN, "shifter": _AGAIN}
_LOG_OUT = "unset APPTAINER_DOCKER_USERNAME APPTAINER_DOCKER_PASSWORD"
_CONVERT = """\
# One rank of the job converts the image into apptainer's cache; the others wait and reuse it.
converted=$JOBGEN_STATE_DIR/image.$JOBGEN_RESTART.DIGEST
if mkdir "$converted.begun" 2>/dev/null; then # only one can create it
    apptainer exec IMAGE true
    echo "$?" >"$converted" || die 96 "cannot write $converted"
fi
[[ -d $converted.begun ]] || die 96 "cannot create $converted.begun"
until [[ -s $converted ]]; do sleep 1; done
[[ $(<"$converted") == 0 ]] || die 96 'apptainer cannot convert 'IMAGE"""
_RECORD = """\
# record which image runs, in the background
if [[ $SLURM_PROCID == 0 ]]; then WORDS </dev/null &>/dev/null & fi"""
_OF_THE_IMAGE = ("PATH", "LD_LIBRARY_PATH")
"""What apptainer sets inside by itself; --nv puts the driver's libraries there."""
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


def plan_container(
    look: Inputs, shape: Shape, env: Mapping[str, Setting], needed: Sequence[Mount] = ()
) -> ContainerPlan | None:
    """What every node enters before the setup; ``env`` is to be taken along.

    ``needed`` is what the network mounts beside what the container asks for.
    """
    asked, place = find_container(look)
    if asked is None:
        return None
    mounts = _mounts(asked, needed)
    by_srun = asked.runtime in BY_SRUN
    name = format_image(asked.image, asked.runtime)
    login = registry_login.write_login(asked, name) if asked.runtime == "pyxis" else ""
    return ContainerPlan(
        runtime=asked.runtime,
        image=name,
        mounts=tuple(_mount(text) for text in mounts),
        args=asked.args,
        workdir=asked.workdir or "",
        setup=() if by_srun else (*list_site_setup(look), *list_outside(look)),
        before=_before(look, asked, shape),
        login=login,
        why=_WHY.get(asked.runtime, ""),
        enter=_ENTER[asked.runtime](look, asked.replace(mounts=mounts), shape, env),
        record=_record_image(look, asked, name),
        place=place,
    )


def _record_image(look: Inputs, asked: Container, name: str) -> tuple[Word, ...]:
    """What the batch shell records the image with; nothing where a node of the group does."""
    return () if _records_on_node(look, asked) else _build_record(look, asked, name)


def _build_record(look: Inputs, asked: Container, name: str) -> tuple[Word, ...]:
    """The helper that records the image: docker's, or that of a file; each of a job with several
    programs in a file of its own."""
    if not _has_digest(asked):
        return ()
    script = Raw(f'"$JOBGEN_BUNDLE_DIR/{IMAGE_DIGEST}"')
    number = f".{_hash_name(name)}" if look.step else ""
    record = Raw(f'"$JOBGEN_STATE_DIR/image_digest{number}.$JOBGEN_RESTART"')
    return ("sh", script, asked.runtime, Raw(quote_expandable(name)), record)


def _records_on_node(look: Inputs, asked: Container) -> bool:
    """Whether only a node of the group can tell which image this is: its docker has pulled it."""
    return look.group is not None and asked.runtime == "docker"


def _hash_name(image: str) -> str:
    """What tells the files about one image from those about another."""
    return hashlib.sha256(image.encode()).hexdigest()[:8]


def _has_digest(asked: Container) -> bool:
    """Whether the first node can tell, outside the container, which image this is."""
    return asked.runtime == "docker" or (asked.runtime != "shifter" and is_file(asked.image))


def list_srun_options(look: Inputs, names: Iterable[str], needed: Sequence[Mount] = ()) -> Lines:
    """The container as options of srun, which plug-ins add: pyxis, and that of CSCS."""
    asked, _ = find_container(look)
    if asked is not None and asked.runtime == "edf":
        return ((Raw(f'--environment="$JOBGEN_BUNDLE_DIR/{EDF}"'),), expand_args(asked.args))
    if asked is None or asked.runtime != "pyxis":
        return ()
    mounts = quote_expandable(
        ",".join(["$JOBGEN_RUN_DIR:$JOBGEN_RUN_DIR", *_mounts(asked, needed)])
    )
    return (
        (Raw(f"--container-image={quote_expandable(format_image(asked.image, asked.runtime))}"),),
        (Raw(f"--container-mounts={mounts}"),),
        # the image's own values would win over variables that are not named
        (f"--container-env={','.join((*list_always(look), *names))}",),
        expand_args(asked.args),
    )


def describe_environment(
    look: Inputs, shape: Shape, env: Mapping[str, Setting], needed: Sequence[Mount] = ()
) -> tuple[Part, tuple[Step, ...]]:
    """What a container has beside it: what records its image; where srun enters it by a file, this
    file, and its environment as text."""
    asked, place = find_container(look)
    digest = BundleFile(IMAGE_DIGEST, text(IMAGE_DIGEST).encode())
    files = (digest,) if asked is not None and _has_digest(asked) else ()
    if asked is None or asked.runtime != "edf":
        return Part("container", files=files), ()
    file = write_edf(asked, format_image(asked.image, "edf"), _mounts(asked, needed))
    kept = decide_precedence(shape, {n: s for n, s in env.items() if n not in _OF_THE_IMAGE})
    return Part("container", files=(file, *files)), (hand_over(kept.names, place),)


def name_entry(inside: ContainerPlan | None) -> tuple[Word, ...]:
    """What srun starts on each node."""
    if inside is not None and inside.runtime == "edf":
        return INSIDE
    return ("bash", ENTER if inside is not None and inside.enter else NODE)


def format_image(name: str, runtime: str) -> str:
    """The image as its runtime writes it: only Docker takes a registry's name as people know it.

    >>> format_image("nvcr.io/nvidia/pytorch:25.09-py3", "pyxis")
    'nvcr.io#nvidia/pytorch:25.09-py3'
    >>> format_image("nvcr.io/nvidia/pytorch:25.09-py3", "apptainer")
    'docker://nvcr.io/nvidia/pytorch:25.09-py3'
    >>> format_image("/shared/torch.sqsh", "pyxis")
    '/shared/torch.sqsh'
    """
    if runtime == "shifter":
        return name_shifter_image(name)
    if is_file(name) or runtime == "docker":
        return name.removeprefix("docker://") if runtime == "docker" else name
    if runtime == "apptainer":
        return name if "://" in name else f"docker://{name}"
    name = name.removeprefix("docker://")
    registry, slash, rest = name.partition("/")
    if slash and "#" not in name and re.search(r"[.:]|^localhost$", registry):
        return f"{registry}#{rest}"
    return name


def is_file(name: str) -> bool:
    """Whether an image is a file of the cluster, and not in a registry."""
    return name.startswith(("/", ".", "$", "~")) or name.endswith((".sqsh", ".sif"))


def expose_hcas(look: Inputs, shape: Shape) -> Part:
    """What makes the HCAs visible inside."""
    asked, _ = find_container(look)
    alone = look.widen_network(shape).nodes < 2
    if asked is None or asked.runtime != "pyxis" or not shape.gpus_per_node or alone:
        return Part("container")
    if look.cluster.network.fabric not in {"infiniband", "roce"}:
        return Part("container")
    why = "enroot hides the HCAs unless MELLANOX_VISIBLE_DEVICES names them"
    place = look.cite_cluster("network", "fabric")
    return Part("container", env={"MELLANOX_VISIBLE_DEVICES": Setting("all", why, place)})


def mount_code(look: Inputs) -> Part:
    """What makes code that stays on the cluster visible inside, at its own place."""
    folder = look.job.workdir.at
    return Part("workdir", mounts=(Mount(folder, folder),) if folder else ())


def list_site_setup(look: Inputs) -> tuple[Setting, ...]:
    """The cluster's lines. They are about its own software, so they run outside of a container."""
    place = look.cite_cluster("defaults", "setup")
    lines = look.cluster.defaults.setup
    return tuple(Setting(line, SelfEvident.CLUSTER_DEFAULT, place) for line in lines)


def list_outside(look: Inputs) -> tuple[Setting, ...]:
    """The job's own lines that run before the container is entered."""
    place = look.cite_job("setup", "outside")
    lines = look.job.setup_scopes.outside
    return tuple(Setting(line, SelfEvident.AS_ASKED, place) for line in lines)


def find_container(look: Inputs) -> tuple[Container | None, Place]:
    """The container of the job, else that of the cluster; None if neither has one."""
    if look.job.container is not None:
        return look.job.container, look.cite_job("container")
    return look.cluster.defaults.container, look.cite_cluster("defaults", "container")


def _by_srun(_look: Inputs, _asked: Container, _shape: Shape, _env: Mapping[str, Setting]) -> Lines:
    return ()


def _shifter(_look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    return enter_shifter(asked, format_image(asked.image, "shifter"), _declare(shape, env))


def _apptainer(_look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    """The environment comes along by itself, but an image's own values win over it.

    So it is handed over as text too and set again inside: ``--env`` would end a value at a comma
    and evaluate its ``$`` (apptainer-userdocs, environment_and_metadata).
    """
    cards = "--rocm" if shape.amd else "--nv"
    gpus: tuple[Word, ...] = (cards,) if shape.gpus_per_node else ()
    binds = ['"$JOBGEN_RUN_DIR"', *(quote_expandable(mount) for mount in asked.mounts)]
    return (
        *_declare(shape, env),
        ("exec", "apptainer", "exec", *gpus),
        *((Raw(f"--bind={bind}"),) for bind in binds),
        expand_args(asked.args),
        (Raw(quote_expandable(format_image(asked.image, asked.runtime))),),
        ("bash", "-c", SET_AGAIN if asked.login is None else f"{_LOG_OUT}; {SET_AGAIN}", NODE),
    )


def _declare(shape: Shape, env: Mapping[str, Setting]) -> Lines:
    """The job's environment as text, before the command that gets it."""
    kept = decide_precedence(
        shape, {name: s for name, s in env.items() if name not in _OF_THE_IMAGE}
    )
    return (
        (Raw('JOBGEN_ENV="$(declare -p'), *kept.gpus),
        *_wrapped(kept.names),
        (Raw('2>/dev/null)"'),),
    )


def _docker(look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    """Nothing comes along by itself: no device, no variable, no user, no end with the job."""
    gpus = _devices(look, shape)
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
        *_wrapped(tuple(f"--env={name}" for name in named)),
        expand_args(asked.args),
        (Raw(quote_expandable(format_image(asked.image, asked.runtime))),),
        ("bash", NODE),
    )


def _before(look: Inputs, asked: Container, shape: Shape) -> str:
    """What a node runs before it enters the container: login, devices, conversion."""
    name = format_image(asked.image, asked.runtime)
    texts: list[str] = []
    if asked.runtime in ("docker", "apptainer"):
        texts.append(registry_login.write_login(asked, name))
    if asked.runtime == "docker":
        texts.append(_devices(look, shape).before)
    if _records_on_node(look, asked):
        words = " ".join(quote(word) for word in _build_record(look, asked, name))
        texts.append(_RECORD.replace("WORDS", words))
    if asked.runtime == "apptainer" and "://" in name:
        convert = _CONVERT.replace("DIGEST", _hash_name(name))
        texts.append(convert.replace("IMAGE", quote_expandable(name)))
    return "\n".join(filter(None, texts))


def _devices(look: Inputs, shape: Shape) -> Devices:
    return list_devices(shape, look.cluster.nodes.gpus_per_node)


def _wrapped(words: tuple[Word, ...], count: int = 4) -> Lines:
    """A few words a line."""
    return tuple(words[i : i + count] for i in range(0, len(words), count))


_ENTER = {
    "pyxis": _by_srun,
    "edf": _by_srun,
    "apptainer": _apptainer,
    "docker": _docker,
    "shifter": _shifter,
}


def _mounts(asked: Container, needed: Sequence[Mount]) -> tuple[str, ...]:
    """The mounts that are asked for, then what the network needs at targets that are still free."""
    taken = {_mount(text).target for text in asked.mounts}
    return (*asked.mounts, *(f"{m.source}:{m.target}" for m in needed if m.target not in taken))


def _mount(text: str) -> Mount:
    source, target, *flags = text.split(":")
    return Mount(source, target, readonly="ro" in flags)
