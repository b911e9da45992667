"""The container around the program: the job's, else the cluster's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from jobgen.launch import expand_args
from jobgen.model.container import BY_SRUN
from jobgen.model.decision import SelfEvident, Setting
from jobgen.model.part_plans import ContainerPlan, Mount
from jobgen.model.plan import Part, Precedence, Shape, Step
from jobgen.resolve import registry_login
from jobgen.resolve.apptainer import enter_apptainer, write_conversion
from jobgen.resolve.container_image import (
    find_container,
    format_image,
    list_digest_files,
    record_image,
    record_on_node,
)
from jobgen.resolve.docker import enter_docker, list_devices
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.rank_environment import decide_precedence, list_always
from jobgen.resolve.site_runtimes import (
    EDF,
    INSIDE,
    enter_shifter,
    hand_over,
    write_edf,
)
from jobgen.resolve.start import ENTER, NODE, Lines, wrap_words
from jobgen.shell import Raw, Word, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.container import Container

_AGAIN = "Set again inside, because the image's own variables would win."
_WHY = {"apptainer": _AGAIN, "shifter": _AGAIN}
_OF_THE_IMAGE = ("PATH", "LD_LIBRARY_PATH")
"""What apptainer sets inside by itself; --nv puts the driver's libraries there."""


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
        record=record_image(look, asked, name),
        place=place,
    )


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
    files = list_digest_files(asked)
    if asked is None or asked.runtime != "edf":
        return Part("container", files=files), ()
    file = write_edf(asked, format_image(asked.image, "edf"), _mounts(asked, needed))
    kept = _choose_kept(shape, env)
    return Part("container", files=(file, *files)), (hand_over(kept.names, place),)


def name_entry(inside: ContainerPlan | None) -> tuple[Word, ...]:
    """What srun starts on each node."""
    if inside is not None and inside.runtime == "edf":
        return INSIDE
    return ("bash", ENTER if inside is not None and inside.enter else NODE)


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


def _by_srun(_look: Inputs, _asked: Container, _shape: Shape, _env: Mapping[str, Setting]) -> Lines:
    return ()


def _shifter(_look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    return enter_shifter(asked, format_image(asked.image, "shifter"), _declare(shape, env))


def _apptainer(_look: Inputs, asked: Container, shape: Shape, env: Mapping[str, Setting]) -> Lines:
    return enter_apptainer(asked, shape, _declare(shape, env))


def _declare(shape: Shape, env: Mapping[str, Setting]) -> Lines:
    """The job's environment as text, before the command that gets it."""
    kept = _choose_kept(shape, env)
    return (
        (Raw('JOBGEN_ENV="$(declare -p'), *kept.gpus),
        *wrap_words(kept.names),
        (Raw('2>/dev/null)"'),),
    )


def _choose_kept(shape: Shape, env: Mapping[str, Setting]) -> Precedence:
    """The variables that win over those of the image."""
    return decide_precedence(shape, {n: s for n, s in env.items() if n not in _OF_THE_IMAGE})


def _before(look: Inputs, asked: Container, shape: Shape) -> str:
    """What a node runs before it enters the container: login, devices, conversion."""
    name = format_image(asked.image, asked.runtime)
    texts: list[str] = []
    if asked.runtime in ("docker", "apptainer"):
        texts.append(registry_login.write_login(asked, name))
    if asked.runtime == "docker":
        texts.append(list_devices(look, shape).before)
    texts.append(record_on_node(look, asked, name))
    if asked.runtime == "apptainer":
        texts.append(write_conversion(name))
    return "\n".join(filter(None, texts))


_ENTER = {
    "pyxis": _by_srun,
    "edf": _by_srun,
    "apptainer": _apptainer,
    "docker": enter_docker,
    "shifter": _shifter,
}


def _mounts(asked: Container, needed: Sequence[Mount]) -> tuple[str, ...]:
    """The mounts that are asked for, then what the network needs at targets that are still free."""
    taken = {_mount(text).target for text in asked.mounts}
    return (*asked.mounts, *(f"{m.source}:{m.target}" for m in needed if m.target not in taken))


def _mount(text: str) -> Mount:
    source, target, *flags = text.split(":")
    return Mount(source, target, readonly="ro" in flags)
