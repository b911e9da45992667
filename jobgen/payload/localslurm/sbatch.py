"""sbatch: read the script and its options, refuse what Slurm refuses, start a supervisor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import FOLDER, job_request, options, script, times
from .environment import wrappers
from .errors import SUBMISSION, CommandError, submission
from .hostlist import compress
from .records import Request
from .store import Store, write

HELP = "Usage: sbatch [OPTIONS(0)...] script [args(0)...]"


def main(store: Store, words: Sequence[str]) -> int:
    """Accept a job and print its id."""
    line, rest = options.parse("sbatch", options.SBATCH, words)
    if line.keys() & {"help", "usage", "version"}:
        print(options.VERSION if "version" in line else HELP)
        return 0
    text, command, arguments = _script(line, rest)
    script.check(text)
    directed, _ = options.parse(
        "sbatch",
        options.SBATCH,
        script.directives(text.decode("utf-8", "surrogateescape"), command or "--wrap"),
    )
    wanted = {**directed, **_environment(os.environ), **line}
    store.create()
    if "test-only" in wanted:
        return _test_only(store, wanted)
    request = job_request.build_request(store, wanted, command, arguments)
    job_request.check_feasible(store, request)
    number = _start(store, request, text)
    if "parsable" in wanted:
        print(number)
    elif "quiet" not in wanted:
        print(f"Submitted batch job {number}")
    return _follow(store, number) if "wait" in wanted else 0


def _script(line: Mapping[str, str], rest: list[str]) -> tuple[bytes, str, list[str]]:
    if "wrap" in line:
        if rest:
            raise CommandError("sbatch: error: Script arguments not permitted with --wrap option")
        made = f"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{line['wrap']}\n"
        return made.encode("utf-8", "surrogateescape"), "", []
    if not rest:
        return sys.stdin.buffer.read(), "", []
    path = Path(rest[0])
    try:
        return path.read_bytes(), str(path.absolute()), rest[1:]
    except OSError:
        raise CommandError(f"sbatch: error: Unable to open file {path}") from None


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for option in options.table(options.SBATCH).values():
        default = f"SBATCH_{option.name.upper().replace('-', '_')}"
        value = environ.get(options.SBATCH_ENV.get(option.name, default))
        if value is not None and option.name not in options.NO_ENV:
            found[option.name] = value
    return found


def _test_only(store: Store, wanted: Mapping[str, str]) -> int:
    try:
        request = job_request.build_request(store, wanted, "", ())
        job_request.check_feasible(store, request)
    except CommandError as refused:
        told = (line.replace(SUBMISSION, "allocation failure: ") for line in refused.lines)
        raise CommandError(*told, code=refused.code) from None
    processors = (request.ntasks or request.nodes) * (request.cpus_per_task or 1)
    nodes = compress(range(1, request.nodes + 1))
    print(
        f"sbatch: Job {request.id} to start at {times.stamp(time.time())} using {processors}"
        f" processors on nodes {nodes} in partition {request.partition}",
        file=sys.stderr,
    )
    return 0


def _start(store: Store, request: Request, text: bytes) -> int:
    """The job's folder, and its supervisor, which makes the job known once it stands."""
    store.forget_old()
    folder = store.folder(request.id)
    for part in (folder, folder / "mail", folder / "steps"):
        part.mkdir(mode=0o700)
    (folder / "script").write_bytes(text)
    (folder / "script").chmod(0o700)
    wrappers(folder / "bin", store.root)
    write(folder / "request.json", json.dumps(request._asdict()))
    ready, told = os.pipe()
    with (folder / "supervisor.log").open("ab") as log:
        program = (sys.executable, "-I", "-S", FOLDER)
        words = ("--state", str(store.root), "supervise", str(request.id), str(told))
        subprocess.Popen(
            (*program, *words),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=(told,),
            cwd="/",
        )
    os.close(told)
    with open(ready, "rb") as answer:  # noqa: PTH123
        if answer.read() != b"accepted":
            raise submission(f"the job's supervisor did not start: see {folder}/supervisor.log")
    return request.id


def _follow(store: Store, number: int) -> int:
    while True:
        job = store.job(number)
        if job is None or job.status.ended:
            return 1 if job is None else job.status.exit or job.status.signal
        time.sleep(0.2)
