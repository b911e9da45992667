"""Container runtimes of single sites: Shifter, and the container engine of CSCS.

Sources: NERSC/shifter, README and doc (``--image``, ``--module``, ``--volume``); docs.cscs.ch,
Container engine, EDF reference (image, base_environment, mounts, annotations, expansion of
``${NAME}``; variables of the image win over those of the host).
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.launch import expand_args
from jobgen.model.bundle import BundleFile
from jobgen.model.plan import Step
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.start import NODE, Lines
from jobgen.shell import Raw, Word, quote_expandable

if TYPE_CHECKING:
    from jobgen.errors import Place
    from jobgen.model.container import Container

EDF = "environment.toml"
_OWN_EDF = ".toml"
SET_AGAIN = 'eval "$JOBGEN_ENV"; unset JOBGEN_ENV; exec bash "$0"'
"""What a container runs first: the image's own variables have won over the job's."""
INSIDE: tuple[Word, ...] = ("bash", "-c", SET_AGAIN, NODE)
_WITH_MODULES = ("shifter", "edf")


def name_shifter_image(name: str) -> str:
    """The image as ``shifterimg images`` lists it.

    >>> name_shifter_image("docker://nvcr.io/nvidia/pytorch:25.09-py3")
    'docker:nvcr.io/nvidia/pytorch:25.09-py3'
    """
    name = name.removeprefix("docker://")
    return name if re.match(r"(docker|id|custom):", name) else f"docker:{name}"


def enter_shifter(asked: Container, image: str, declared: Lines) -> Lines:
    """The command that enters the container. Shifter mounts the site's file systems by itself, and
    refuses to mount them once more; ``declared`` hands the environment over."""
    modules: tuple[Word, ...] = (f"--module={','.join(asked.modules)}",) if asked.modules else ()
    others = [mount for mount in asked.mounts if len({*mount.split(":")[:2]}) > 1]
    return (
        *declared,
        ("exec", "shifter", Raw(f"--image={quote_expandable(image)}"), *modules),
        *((Raw(f"--volume={quote_expandable(mount)}"),) for mount in others),
        expand_args(asked.args),
        INSIDE,
    )


def write_edf(asked: Container, image: str, mounts: Sequence[str]) -> BundleFile:
    """The file that ``srun --environment`` names; it inherits from a file of the user's own."""
    places = ["$JOBGEN_RUN_DIR:$JOBGEN_RUN_DIR", *mounts]
    listed = "".join(f"    {_quote(place)},\n" for place in places)
    parent = "base_environment" if image.endswith(_OWN_EDF) else "image"
    lines = [f"{parent} = {_quote(image)}\n", f"mounts = [\n{listed}]\n"]
    for module in asked.modules:
        hook, _, variant = module.partition("=")
        lines.append(f'\n[annotations.com.hooks.{hook}]\nenabled = "true"\n')
        lines += [f"variant = {_quote(variant)}\n"] if variant else []
    return BundleFile(EDF, "".join(lines).encode())


def _quote(text: str) -> str:
    """A string of TOML in which ``$NAME`` expands."""
    return json.dumps(re.sub(r"(?<!\$)\$(\w+)", r"${\1}", text), ensure_ascii=False)


def hand_over(names: Sequence[str], place: Place) -> Step:
    """The environment as text, for a container that srun enters."""
    words = textwrap.wrap(f"JOBGEN_ENV=$(declare -p {' '.join(names)}", 100, break_on_hyphens=False)
    text = " \\\n    ".join([*words, "2>/dev/null)"]) + "\nexport JOBGEN_ENV"
    why = "set again inside, because the image's own variables would win"
    return Step("environment", "once", f"# {why}\n{text}", why=why, place=place)


def check_site_runtime(look: Inputs, asked: Container) -> Iterator[Diagnostic]:
    """What these runtimes cannot do, and what only they can."""
    kind = asked.runtime
    if asked.modules and kind not in _WITH_MODULES:
        message = f"container.modules is for shifter and edf, not for {kind}"
        yield look.diagnose_job("J216", message, "container", "modules", hint="remove modules")
    own = asked.image.endswith(_OWN_EDF)
    if own and kind != "edf":
        message = f"{asked.image} is an environment definition file, which {kind} does not read"
        yield look.diagnose_job("J216", message, "container", "image", hint="set runtime: edf")
    elif own and not asked.image.startswith(("/", "$")):
        message = f"{asked.image} is not an absolute path"
        hint = "write it whole, such as $HOME/.edf/NAME.toml"
        yield look.diagnose_job("J216", message, "container", "image", hint=hint)
    if kind == "shifter" and asked.image.startswith(("/", ".", "$", "~")):
        message = f"shifter runs images that were pulled before, but {asked.image} is a file"
        hint = "on the login host: shifterimg pull docker:NAME; then set image: NAME"
        yield look.diagnose_job("J216", message, "container", "image", hint=hint)
    if asked.login is not None and kind in _WITH_MODULES:
        message = f"container.login has no effect with {kind}, which pulls images outside the job"
        by_hand = {"shifter": "shifterimg login", "edf": "~/.config/enroot/.credentials"}[kind]
        hint = f"remove login, and log in once on the login host: {by_hand}"
        yield look.diagnose_job("J216", message, "container", "login", hint=hint)
