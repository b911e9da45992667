"""``docker run``, ``conda run`` and the like in ``run:``: the keys of a job to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobgen.model.container import check_image, check_mount
from jobgen.model.form import Refusal
from jobgen.shell.programs import read_started
from jobgen.shell.started_program import StartedProgram

_CONTAINERS: Mapping[str, str] = {
    **dict.fromkeys(("docker", "podman", "nerdctl"), "docker"),
    **dict.fromkeys(("apptainer", "singularity"), "apptainer"),
    "enroot": "pyxis",
    "shifter": "shifter",
}
"""Command that starts a container → the runtime of ``container:``."""
_CONDA = frozenset({"conda", "mamba", "micromamba"})
_VENVS = frozenset({"uv", "poetry", "pipenv", "pdm", "pixi", "rye", "hatch"})
_VOLUMES = frozenset({"-v", "--volume", "-B", "--bind"})
_NAMES = frozenset({"-n", "--name", "-p", "--prefix"})


def suggest_keys(run: str) -> str:
    """What to write for a command that enters a container or an environment; empty if none does."""
    started = list(read_started(run))
    runner = next((p for p in started if p.starter is None and p.name in _ALL), None)
    if runner is None:
        return ""
    inner = next((p for p in started if p.starter is runner and (p.script or p.module)), None)
    key = describe_key(runner, inner)
    if inner is not None:
        return f"write run: {' '.join(word.raw for word in inner.words)} and {key}"
    return f"write the program alone and set {key} and launcher: srun, one process per rank"


_ALL = frozenset(_CONTAINERS) | _CONDA | _VENVS


def describe_key(runner: StartedProgram, inner: StartedProgram | None) -> str:
    """The key of a job that does what this command does for what it starts; empty if none does."""
    if runner.name in _CONTAINERS:
        return _container(runner, inner)
    return _environment(runner) if runner.name in _ALL else ""


def write_command(program: StartedProgram, agent: str) -> str:
    """``uv run torchrun``: the launcher in the environment of its runner; empty without one."""
    runner = program.starter
    if runner is None or runner.name not in _VENVS:
        return ""
    before = [word.raw for word in runner.words if word.start < program.words[0].start]
    return " ".join([*(word for word in before if word not in {"-m", "--module"}), agent])


def _container(runner: StartedProgram, inner: StartedProgram | None) -> str:
    """``container:`` with the image and the mounts of the command, as far as they are certain."""
    before = [w for w in runner.words if inner and w.start < inner.words[0].start]
    files = [w.raw for w in runner.words if w.text.endswith((".sif", ".sqsh")) or "://" in w.text]
    image = before[-1].raw if len(before) > 2 else next(iter(files), "")
    try:
        check_image(image)
    except Refusal:
        image = "IMAGE"
    runtime = _CONTAINERS[runner.name]
    settings = [f"image: {image}"]
    settings += [f"runtime: {runtime}"] if runtime != "pyxis" else []
    mounts = [_quote(mount) for mount in _list_mounts(runner)]
    settings += [f"mounts: [{', '.join(mounts)}]"] if mounts else []
    short = runtime == "pyxis" and not mounts
    return f"container: {image}" if short else f"container: {{{', '.join(settings)}}}"


def _list_mounts(runner: StartedProgram) -> Iterator[str]:
    """Mounts of absolute paths."""
    for option, text in _list_options(runner):
        if option in _VOLUMES and not re.search(r"PWD|\$\(|`", text):
            try:
                check_mount(text)
            except Refusal:
                continue
            yield text


def _list_options(program: StartedProgram) -> Iterator[tuple[str, str]]:
    """Options with their values, attached or in the next word."""
    words = [word.text for word in program.words]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        yield name, value if equals else following


def _environment(runner: StartedProgram) -> str:
    if runner.name in _VENVS:
        return "setup: source PATH/bin/activate"
    names = (value for name, value in _list_options(runner) if name in _NAMES)
    return f"setup: source PATH/bin/activate {next(names, 'ENV')}"


def _quote(text: str) -> str:
    return text if re.fullmatch(r"[\w./:$-]+", text) else f"'{text}'"
