"""Published measurements as setups: one row of a CSV file → what the planner is asked.

What a row leaves out is filled in by what its framework does by default, as its code says; nothing
here is fitted to a measurement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from planner_cells import read_number
from planner_machines import knows_interconnect, read_machine
from planner_setups import LOCAL_BATCH, read_setup
from planner_shapes import adds_up
from planner_synonyms import say_alike

from jobgen.strategy.estimate import ClusterHardware, Metric
from jobgen.strategy.setup import Setup
from jobgen.strategy.speed.compute import count_flops


class Row(NamedTuple):
    """One published run."""

    id: str
    tier: str
    source: str
    setup: Setup | None
    machine: ClusterHardware
    metric: Metric
    gib: float | None
    """Measured memory, in GiB of its metric."""
    step: float | None
    """Measured seconds of a step of the optimizer."""
    mfu: float | None
    fits: bool
    interconnect: bool
    """Whether what joins the GPUs is known, and how fast they may be."""
    missing: str = ""
    """Why its memory is not scored."""
    blind: float | None = None
    """The estimate in GiB before its source had shown any mistake of the planner, where kept."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What kinds of training it is: what is trained, of which model, on how many GPUs."""
        if self.setup is None:
            return ()
        adapters, experts = self.setup.adapters, self.setup.model.sizes.experts
        trained = "full"
        if adapters is not None:
            trained = "QLoRA" if adapters.bits == 4 else "LoRA"
        gpus = "one GPU" if self.setup.mesh.world == 1 else "several GPUs"
        return (trained, gpus) if experts is None else (trained, "MoE", gpus)


_NEEDED = ("layers", "hidden", "seq")
"""Columns without which there is no setup."""
_SCORED = {"mbs": "micro-batch", "optimizer": "optimizer"}
"""Columns without which its memory is not scored."""


def row(line: Mapping[str, str | None]) -> Row:
    """One line of the file; a column that the file does not have is one that is empty."""
    said = say_alike(line)
    gaps = [name for name in _NEEDED if not read_number(said[name])]
    if not gaps and not adds_up(said):
        gaps = ["sizes that add up to its parameters"]  # experts, or an encoder beside the decoder
    setup = None if gaps else read_setup(said)
    gaps += [name for column, name in _SCORED.items() if not said[column].strip()]
    if "micro-batch" in gaps and LOCAL_BATCH.search(said["notes"]):
        gaps.remove("micro-batch")
    machine = read_machine(said)
    return Row(
        said["id"],
        said["tier"],
        said["source"],
        setup,
        machine,
        _metric(said),
        _gib(said),
        _seconds(said, setup, machine),
        read_number(said["mfu_pct"]),
        re.match("oom|out of memory", said["outcome"], re.IGNORECASE) is None,
        knows_interconnect(said),
        f"no {', '.join(gaps)}" if gaps else "",
        read_number(said.get("blind_gib", "")),
    )


_UNITS = {"GiB": 1.0, "MiB": 2.0**-10, "MB": 1e6 / 2**30, "bytes": 2.0**-30, "GB?": 1.0}
"""GiB of one unit, where it is not 1e9 bytes: a GB that may be either is what tools print as GB."""


def _gib(said: Mapping[str, str]) -> float | None:
    """Measured memory, in GiB: of its own column, or of the value as printed and its unit."""
    printed = read_number(said["mem_value"])
    each = _UNITS.get(said["mem_unit"].strip(), 1e9 / 2**30)
    return read_number(said["mem_gib"]) or (printed * each if printed else None)


_METRICS: tuple[tuple[str, Metric], ...] = (
    (r"nvidia-smi|nvtop", "nvidia-smi"),
    (r"allocated|active|peak mem", "allocated"),
    (r"reserved", "reserved"),
)


def _metric(said: Mapping[str, str]) -> Metric:
    """What was measured; where it is not said, what can be seen without changing the program."""
    words = f"{said['mem_metric']} {said['mem_unit']}"
    return next((name for found, name in _METRICS if re.search(found, words)), "nvidia-smi")


_EACH = re.compile(r"per micro-?batch|each micro-?batch|s/it of a micro-?batch", re.IGNORECASE)


def _seconds(
    said: Mapping[str, str], setup: Setup | None, machine: ClusterHardware
) -> float | None:
    """Seconds of a step of a known batch: as printed, from tokens and their rate, or from MFU.

    Seconds of one micro-batch are recognised by words, or because a whole step in them would need
    more FLOPs than the GPU can do. None where even a micro-batch would: no training was timed.
    """
    batch = said["mbs"] or "local batch" in said["notes"]
    if setup is None or not batch or not (said["gas"] or said["gbs"] or "batch" in said["notes"]):
        return None
    mesh, steps = setup.mesh, setup.batch.accumulation
    rate, mfu = read_number(said["tok_s_gpu"]), read_number(said["mfu_pct"])
    work = count_flops(setup) * setup.batch.total * setup.seq / mesh.world
    found = read_number(said["step_s"])
    if not found and rate:
        found = setup.batch.total * setup.seq / rate / mesh.world
    elif not found and mfu:
        found = work / machine.peak / mfu * 100
    if not found:
        return None
    least = work / max(machine.peak, machine.fast8)
    if _EACH.search(said["notes"]) or found <= least < found * steps:
        found *= steps
    return found if found > least else None
