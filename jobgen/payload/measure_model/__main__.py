"""The command line, and the report."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

from .fake_tensors import fake_gpu, fake_mode
from .training_step import TrainingStep, fake_group
from .user_program import Failed, import_torch, load_function

MOST_BYTES = 64 << 20
"""A larger file that is read is data, and not compared."""


def main() -> None:
    """Write the report, or the failure."""
    del sys.path[0]  # the folder of this package
    request = json.loads(Path(sys.argv[1]).read_text())
    # in a job the uploaded folder, which Slurm's node alone can name
    request["workdir"] = os.path.realpath(request["workdir"] or os.environ["JOBGEN_WORK_DIR"])
    opened: set[str] = set()
    watch_files(request["workdir"], opened)
    try:
        report = measure(request)
        report["files"] = digest_files(request["workdir"], opened)
    except Failed as failure:
        report = describe_failure(failure)
    part = Path(sys.argv[2] + ".part")
    part.write_text(json.dumps(report))
    part.replace(sys.argv[2])


def describe_failure(failure: Failed) -> dict[str, Any]:
    """The failure as plain data."""
    told = {"failed": failure.kind, "message": str(failure), "place": failure.place}
    return {**told, "key": failure.key, "known": failure.known}


def watch_files(workdir: str, opened: set[str]) -> None:
    """Note every file of the workdir that is opened: the measurement depends on it."""

    def note(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and args[1] in ("r", "rb", None):
            opened.add(str(Path(workdir, args[0])))

    sys.addaudithook(note)


def digest_files(workdir: str, opened: set[str]) -> dict[str, str]:
    """Path in the workdir → sha256 of each file that was imported or read."""
    modules = (getattr(each, "__file__", None) for each in list(sys.modules.values()))
    found = {}
    for name in {*opened, *(each for each in modules if each)}:
        path = Path(os.path.realpath(name))
        if (
            not path.is_file()
            or path.stat().st_size > MOST_BYTES
            or not path.is_relative_to(workdir)
        ):
            continue
        inside = path.relative_to(workdir)
        if not {"__pycache__", "site-packages"}.intersection(inside.parts):
            found[str(inside)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """The report: sizes, and a trace of each mode. Raises Failed."""
    torch = import_torch()
    os.chdir(request["workdir"])
    os.chdir(request["workdir"])
    with fake_gpu():
        return measure_with(torch, request)


def measure_with(torch: Any, request: dict[str, Any]) -> dict[str, Any]:
    """The report, by a torch that needs no GPU. Raises Failed."""
    functions = load_function(request, "model"), load_function(request, "batch")
    report: dict[str, Any] = {"torch": torch.__version__, "traces": []}
    for mode in request["modes"]:
        try:
            trace_mode(torch, request, functions, mode, report)
        except Failed as failure:
            if mode != "16-bit" or not report["traces"]:
                raise
            report["unmeasured"] = str(failure)  # it casts by itself, as autocast lets it
    # without a step in 16 bits, FSDP cannot compute in them
    if request["shards"] > 1 and "unmeasured" not in report:
        with fake_group(torch, request["shards"]) as mesh, fake_mode():
            report["sharded"] = TrainingStep(torch, request, functions, "fp32").trace_sharded(mesh)
    return report


def trace_mode(
    torch: Any, request: dict[str, Any], functions: Any, mode: str, report: dict[str, Any]
) -> None:
    """Add sizes and the traces of a mode to the report."""
    keeps_scores = False
    for recompute, flash in itertools.product(("none", "full"), (False, True)):
        if flash and not keeps_scores:
            continue
        with fake_mode():
            built = TrainingStep(torch, request, functions, mode)
            built.attention.flash = flash
            sizes = built.describe()
            if recompute == "full" and not built.units:
                return
            trace = built.trace(recompute)
        keeps_scores = built.attention.keeps_scores
        report.update(sizes if mode != "16-bit" or not report["traces"] else {})
        report["traces"].append({"mode": mode, "recompute": recompute, "flash": flash, **trace})


if __name__ == "__main__":
    main()
