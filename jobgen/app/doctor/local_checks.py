"""What is asked of this machine; nothing is made or changed."""

from __future__ import annotations

import os
import platform
import shutil
import stat
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import jobgen
from jobgen.app.world import World
from jobgen.data import gpus
from jobgen.errors import Diagnostic, JobgenError
from jobgen.shell import split_lines
from jobgen.survey.health import Answer
from jobgen.survey.health.client import LOCAL, ClientMachine, StateFolder
from jobgen.survey.health.local_gpus import LocalGpus

if TYPE_CHECKING:
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded

PATIENCE = 5.0
"""Seconds for each program."""
_TORCH = "import importlib.metadata as m; print(m.version('torch'))"
_BUILD = (
    "from importlib.util import find_spec as f; import runpy\n"
    "v = runpy.run_path(f('torch').submodule_search_locations[0] + '/version.py')\n"
    "print(v['cuda'] or '')"
)
"""Without an import of torch, which takes seconds."""
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
_BASH = 'printf "%s" "$BASH_VERSION"'


def inspect_machine(world: World) -> ClientMachine:
    """This machine as it is found now."""
    path = world.environ.get("PATH", os.defpath)
    problem, runs = _ledger(world)
    return ClientMachine(
        jobgen=jobgen.__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        paramiko=_installed("paramiko"),
        state=_folder(world, world.state),
        config=_folder(world, world.config),
        ledger=problem,
        runs=runs,
        now=world.now(),
        newest=Path(jobgen.__file__).stat().st_mtime,
        ssh=ask(["ssh", "-V"], world.environ),
        agent=ask(["ssh-add", "-l"], world.environ),
        socket=world.environ.get("SSH_AUTH_SOCK", ""),
        keys=tuple(name for name in _KEYS if (world.home / ".ssh" / name).is_file()),
        git=ask(["git", "--version"], world.environ),
        programs={name: shutil.which(name, path=path) is not None for name in LOCAL},
        bash=ask(["bash", "-c", _BASH], world.environ),
        torch=ask(["python", "-c", _TORCH], world.environ),
    )


def inspect_gpus(world: World, profile: Loaded[ClusterProfile]) -> LocalGpus | None:
    """The NVIDIA GPUs of a profile of this machine; None if it has none."""
    nodes = profile.value.nodes
    gpu = gpus().get(nodes.gpu or "")
    if not nodes.gpus_per_node or (gpu is not None and gpu.link == "infinity-fabric"):
        return None
    return LocalGpus(
        nodes.gpus_per_node,
        nodes.gpu or "",
        str(profile.cite("nodes", "gpus_per_node")),
        listed=ask(["nvidia-smi", "-L"], world.environ),
        build=ask(["python", "-c", _BUILD], world.environ),
    )


def ask(words: list[str], environ: Mapping[str, str]) -> Answer:
    """What a program here said; its exit code as a shell would tell it."""
    begun = time.monotonic()
    program = shutil.which(words[0], path=environ.get("PATH", os.defpath))
    if program is None:
        return Answer(127)
    try:
        done = subprocess.run(
            [program, *words[1:]],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return Answer(124)
    except OSError:
        return Answer(126)
    out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
    return Answer(done.returncode, out, err, time.monotonic() - begun)


def _installed(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _folder(world: World, path: Path) -> StateFolder:
    """What holds for a folder, or for the nearest above it that is there."""
    at = next((p for p in (path, *path.parents) if p.is_dir()), Path("/"))
    try:
        status, free = at.stat(), shutil.disk_usage(at).free
    except OSError:
        return StateFolder(_label(world, path), there=False, writable=False)
    loose = status.st_uid != os.geteuid() or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    there = at == path
    return StateFolder(
        _label(world, path),
        there=there,
        writable=os.access(at, os.W_OK | os.X_OK),
        free=free,
        kind=_kind(at),
        loose=there and loose,
    )


def _label(world: World, path: Path) -> str:
    if path.is_relative_to(world.home):
        return f"~/{path.relative_to(world.home)}"
    return str(path)


def _kind(path: Path) -> str:
    """The kind of the file system, as the kernel tells it; empty where it does not."""
    try:
        lines = split_lines(Path("/proc/self/mounts").read_bytes().decode("utf-8", "replace"))
    except OSError:
        return ""
    mounts = (line.split() for line in lines)
    # a blank in a path is written as \040 there
    known = {Path(m[1].replace("\\040", " ")): m[2] for m in mounts if len(m) > 2}
    return next((known[p] for p in (path.resolve(), *path.resolve().parents) if p in known), "")


def _ledger(world: World) -> tuple[Diagnostic | None, int]:
    """What is wrong with the notebook, and how many runs it has."""
    try:
        runs = len(world.ledger.list_runs())
        if world.ledger.path.exists():
            # a change of nothing: it waits for whoever is writing, as every submit does
            world.ledger.release("")
    except JobgenError as error:
        return error.problems[0], 0
    return None, runs
