"""apptainer: what enters the container, and what converts an image of a registry first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.launch import expand_args
from jobgen.model.plan import Shape
from jobgen.resolve.container_image import format_image, hash_name
from jobgen.resolve.site_runtimes import SET_AGAIN
from jobgen.resolve.start import NODE, Lines
from jobgen.shell import Raw, Word, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.container import Container

_LOG_OUT = "unset APPTAINER_DOCKER_USERNAME APPTAINER_DOCKER_PASSWORD"
CONVERT = """\
# One rank of the job converts the image into apptainer's cache; the others wait and reuse it.
converted=$JOBGEN_STATE_DIR/image.$JOBGEN_RESTART.DIGEST
if mkdir "$converted.begun" 2>/dev/null; then # only one can create it
    apptainer exec IMAGE true
    echo "$?" >"$converted" || die 96 "cannot write $converted"
fi
[[ -d $converted.begun ]] || die 96 "cannot create $converted.begun"
until [[ -s $converted ]]; do sleep 1; done
[[ $(<"$converted") == 0 ]] || die 96 'apptainer cannot convert 'IMAGE"""


def enter_apptainer(asked: Container, shape: Shape, declared: Lines) -> Lines:
    """The command that enters the container. The environment comes along by itself, but an image's
    own values win over it.

    So ``declared`` hands it over as text too, and it is set again inside: ``--env`` would end a
    value at a comma and evaluate its ``$`` (apptainer-userdocs, environment_and_metadata).
    """
    cards = "--rocm" if shape.amd else "--nv"
    gpus: tuple[Word, ...] = (cards,) if shape.gpus_per_node else ()
    binds = ['"$JOBGEN_RUN_DIR"', *(quote_expandable(mount) for mount in asked.mounts)]
    return (
        *declared,
        ("exec", "apptainer", "exec", *gpus),
        *((Raw(f"--bind={bind}"),) for bind in binds),
        expand_args(asked.args),
        (Raw(quote_expandable(format_image(asked.image, asked.runtime))),),
        ("bash", "-c", SET_AGAIN if asked.login is None else f"{_LOG_OUT}; {SET_AGAIN}", NODE),
    )


def write_conversion(image: str) -> str:
    """Lines of bash that convert an image of a registry; empty for a file."""
    if "://" not in image:
        return ""
    convert = CONVERT.replace("DIGEST", hash_name(image))
    return convert.replace("IMAGE", quote_expandable(image))
