"""The container that a job runs in, its image's name, and what records which image it was."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from jobgen.model.bundle import BundleFile
from jobgen.payload import text
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.site_runtimes import name_shifter_image
from jobgen.shell import Raw, Word, quote, quote_expandable

if TYPE_CHECKING:
    from jobgen.errors import Place
    from jobgen.model.container import Container

IMAGE_DIGEST = "image_digest.sh"
_RECORD = """\
# record which image runs, in the background
if [[ $SLURM_PROCID == 0 ]]; then WORDS </dev/null &>/dev/null & fi"""


def find_container(look: Inputs) -> tuple[Container | None, Place]:
    """The container of the job, else that of the cluster; None if neither has one."""
    if look.job.container is not None:
        return look.job.container, look.cite_job("container")
    return look.cluster.defaults.container, look.cite_cluster("defaults", "container")


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


def record_image(look: Inputs, asked: Container, name: str) -> tuple[Word, ...]:
    """What the batch shell records the image with; nothing where a node of the group does."""
    return () if _records_on_node(look, asked) else _build_record(look, asked, name)


def _build_record(look: Inputs, asked: Container, name: str) -> tuple[Word, ...]:
    """The helper that records the image: docker's, or that of a file; each of a job with several
    programs in a file of its own."""
    if not has_digest(asked):
        return ()
    script = Raw(f'"$JOBGEN_BUNDLE_DIR/{IMAGE_DIGEST}"')
    number = f".{hash_name(name)}" if look.step else ""
    record = Raw(f'"$JOBGEN_STATE_DIR/image_digest{number}.$JOBGEN_RESTART"')
    return ("sh", script, asked.runtime, Raw(quote_expandable(name)), record)


def _records_on_node(look: Inputs, asked: Container) -> bool:
    """Whether only a node of the group can tell which image this is: its docker has pulled it."""
    return look.group is not None and asked.runtime == "docker"


def hash_name(image: str) -> str:
    """What tells the files about one image from those about another."""
    return hashlib.sha256(image.encode()).hexdigest()[:8]


def has_digest(asked: Container) -> bool:
    """Whether the first node can tell, outside the container, which image this is."""
    return asked.runtime == "docker" or (asked.runtime != "shifter" and is_file(asked.image))


def record_on_node(look: Inputs, asked: Container, name: str) -> str:
    """Lines of bash in which a node of the group records the image; empty where no node does."""
    if not _records_on_node(look, asked):
        return ""
    return _RECORD.replace("WORDS", " ".join(map(quote, _build_record(look, asked, name))))


def list_digest_files(asked: Container | None) -> tuple[BundleFile, ...]:
    """The helper that records the image, for a job that uses it."""
    if asked is None or not has_digest(asked):
        return ()
    return (BundleFile(IMAGE_DIGEST, text(IMAGE_DIGEST).encode()),)
