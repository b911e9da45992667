"""What a job and its tasks see around them: variables, the PATH and the stand-ins on it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from . import FOLDER
from .hostlist import compress
from .records import Request, Status
from .store import Store, here

_KEPT = (
    "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH",
)  # fmt: skip
_FOREIGN = ("SLURM_", "SLURMD_", "SBATCH_", "JOBGEN_", "ENVIRONMENT")
_SYSTEM = "/usr/local/bin:/usr/bin:/bin"
_PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol", "srun")


def captured(export: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The submitter's variables that ``--export`` lets through."""
    ours = {k: v for k, v in environ.items() if not k.startswith(_FOREIGN)}
    words = [word for word in export.split(",") if word]
    if not words or "ALL" in words:
        kept = ours
    elif words == ["NIL"]:
        kept = {}
    else:  # NONE and lists of names load the user's login environment besides
        kept = {k: v for k, v in ours.items() if k in _KEPT or k.startswith("LC_")}
    named = [word for word in words if word not in ("ALL", "NONE", "NIL")]
    given = (word.partition("=") for word in named)
    return {
        **kept,
        **{name: value if equals else environ.get(name, "") for name, equals, value in given},
    }


def path(export: str, environ: Mapping[str, str]) -> str:
    """The submitter's PATH, and the programs of jobgen's own environment.

    Those come first where no environment is activated and torchrun is among them, so that
    ``.venv/bin/jobgen`` works without activating; and last otherwise.
    """
    given = "" if export == "NIL" else environ.get("PATH", "")
    own = Path(sys.executable).parent
    folders = [folder for folder in (given or _SYSTEM).split(":") if folder]
    activated = environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX")
    rest = [folder for folder in folders if folder != str(own)]
    if str(own) in folders:
        return ":".join(folders)
    return ":".join(
        [str(own), *rest] if not activated and (own / "torchrun").exists() else [*rest, str(own)]
    )


def wrappers(folder: Path, state: Path) -> None:
    """The stand-ins as programs, for the PATH of one job."""
    folder.mkdir(mode=0o700)
    words = (sys.executable, "-I", "-S", FOLDER, "--state", str(state))
    for name in _PROGRAMS:
        text = f'#!/bin/sh\nexec {shlex.join([*words, name])} "$@"\n'
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)


def of_batch(store: Store, request: Request, status: Status) -> dict[str, str]:
    """The environment of the batch shell."""
    found = {
        **_bare(request.environment),
        **of_job(store, request, status),
        "ENVIRONMENT": "BATCH",
        "CUDA_VISIBLE_DEVICES": "",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_GTIDS": "0",
        "SLURMD_NODENAME": f"local{status.nodes[0]}",
    }
    found["PATH"] = f"{store.folder(request.id)}/bin:{request.path}"
    found.setdefault("TMPDIR", "/tmp")  # noqa: S108
    if request.export:
        found["SLURM_EXPORT_ENV"] = request.export
    if status.restarts:
        found["SLURM_RESTART_COUNT"] = str(status.restarts)
    return found


def of_job(store: Store, request: Request, status: Status) -> dict[str, str]:
    """What the batch shell and every task see of the job."""
    number, nodes = str(request.id), compress(status.nodes)
    tasks = request.ntasks or request.nodes
    limit = request.limit or 365 * 86400
    found = {
        "JOBGEN_LOCAL_STATE": str(store.root),
        "SLURM_CLUSTER_NAME": "local",
        "SLURM_CPUS_ON_NODE": str(os.cpu_count() or 1),
        "SLURM_JOBID": number,
        "SLURM_JOB_CPUS_PER_NODE": per_node([os.cpu_count() or 1] * request.nodes),
        "SLURM_JOB_END_TIME": str(int(status.start) + limit),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_JOB_ID": number,
        "SLURM_JOB_NAME": request.name,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(status.nodes)),
        "SLURM_JOB_PARTITION": request.partition,
        "SLURM_JOB_START_TIME": str(int(status.start)),
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_USER": request.user,
        "SLURM_NNODES": str(len(status.nodes)),
        "SLURM_NODELIST": nodes,
        "SLURM_SUBMIT_DIR": request.submit_directory,
        "SLURM_SUBMIT_HOST": here(),
        "SLURM_TASKS_PER_NODE": per_node(spread(tasks, len(status.nodes))),
    }
    asked = {
        "SLURM_NTASKS": request.ntasks,
        "SLURM_NPROCS": request.ntasks,
        "SLURM_NTASKS_PER_NODE": request.ntasks_per_node,
        "SLURM_CPUS_PER_TASK": request.cpus_per_task,
    }
    return {**found, **{k: str(v) for k, v in asked.items() if v}}


def spread(tasks: int, nodes: int) -> list[int]:
    """Tasks on each node, in blocks.

    >>> spread(4, 2), spread(5, 2), spread(1, 2)
    ([2, 2], [3, 2], [1, 0])
    """
    return [tasks // nodes + (1 if n < tasks % nodes else 0) for n in range(nodes)]


def per_node(counts: list[int]) -> str:
    """Slurm's short way to write them.

    >>> per_node([2, 2, 1])
    '2(x2),1'
    """
    parts: list[tuple[int, int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1] = (count, parts[-1][1] + 1)
        else:
            parts.append((count, 1))
    return ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in parts)


def _bare(environment: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in environment.items() if k != "PATH"}
