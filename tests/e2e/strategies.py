"""Every way to divide a training, run on the test cluster: its losses, bytes and checkpoints.

A case is two jobs of examples/gpt: one to the middle, where it saves, and one that goes on from
there. Plain DDP, run without a stop, is what all are compared with.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from jobgen.load import load_job
from jobgen.strategy import RankLayout, decide
from jobgen.strategy.model_sizes import read_sizes
from jobgen.strategy.sharded_bytes import RankStates, Shape, compute_states, divide_shape
from jobgen.strategy.spec import Mesh
from tests.cluster import Cluster
from tests.cluster.layout import REPOSITORY, UID
from tests.e2e.runs import LAUNCHERS, NOT_ASKED, Run, hold, submit, write
from tests.extensions import copy_extensions
from tests.waiting import until

if TYPE_CHECKING:
    from torch import nn

EXAMPLE = REPOSITORY / "examples" / "gpt"
STEPS, SAVED = 6, 3
WARNED_AT = 2
"""The step behind which a job is told that its time is up."""
SMALL = ("--layers=2", "--hidden=72", "--heads=4", "--lr=0.01")
SEQ, MICRO, GLOBAL = 32, 2, 16

PERSISTENT = 100_000
"""Elements of a parameter that DeepSpeed does not free, if nothing else is said."""

TORCH = ("torchrun c10d", "torchrun static", "srun", "deepspeed no_ssh")


class Case(NamedTuple):
    """One strategy with its program, and the launchers that may start it."""

    program: str
    strategy: Mapping[str, Any] | str
    launchers: tuple[str, ...] = TORCH
    train: Mapping[str, Any] = {}
    tolerance: float = 2e-5
    """Of the losses, relative to DDP's: fp32 adds up in another order."""
    variant: bool = False
    """In the table, and not among the tests, which run every strategy and every launcher once."""


_ZERO = (*TORCH, "deepspeed pdsh")
_TP = {"framework": "torch", "tp": 2}
_BF16 = {"precision": "bf16"}
_ROUGHLY = 5e-3
"""Of losses whose products have 8 bits of mantissa."""

CASES: Mapping[str, Case] = {
    "ddp": Case("train_ddp.py", "ddp"),
    "ddp static graph": Case(
        "train_ddp.py", {"type": "ddp", "static_graph": True, "bucket_mb": 1}, variant=True
    ),
    "fsdp": Case("train_fsdp1.py", "fsdp"),
    "fsdp-grad-op": Case("train_fsdp1.py", "fsdp-grad-op"),
    "fsdp-no-shard": Case("train_fsdp1.py", "fsdp-no-shard"),
    "fsdp-hybrid": Case("train_fsdp1.py", "fsdp-hybrid"),
    "fsdp offload": Case("train_fsdp1.py", "fsdp", train={"offload": "both"}, variant=True),
    "fsdp2": Case("train_fsdp2.py", "fsdp2"),
    "fsdp2 kept": Case(
        "train_fsdp2.py", {"type": "fsdp2", "reshard_after_forward": False}, variant=True
    ),
    "fsdp2 by 2": Case(
        "train_fsdp2.py", {"type": "fsdp2", "reshard_after_forward": 2}, variant=True
    ),
    "fsdp2 2-D": Case("train_fsdp2.py", {"type": "fsdp2", "shard": 2}, variant=True),
    "fsdp2 offload": Case("train_fsdp2.py", "fsdp2", train={"offload": "both"}, variant=True),
    "fsdp2 tp": Case("train_fsdp2.py", "fsdp2", train=_TP),
    "zero1": Case("train_deepspeed.py", "zero1", _ZERO),
    "zero2": Case("train_deepspeed.py", "zero2", _ZERO),
    "zero3": Case("train_deepspeed.py", "zero3", _ZERO),
    "zero2 offload": Case(
        "train_deepspeed.py", "zero2", _ZERO, {"offload": "optimizer"}, variant=True
    ),
    "zero3 offload": Case("train_deepspeed.py", "zero3", _ZERO, {"offload": "both"}),
    "3d 2x1x2": Case("train_3d.py", "3d", train={"tp": 2, "pp": 1}, variant=True),
    "3d 1x2x2": Case("train_3d.py", "3d", train={"tp": 1, "pp": 2}),
    "3d 2x2x1": Case("train_3d.py", "3d", train={"tp": 2, "pp": 2}),
    **{
        f"accelerate {name}": Case(
            "train_accelerate.py",
            name,
            ("accelerate",),
            {"framework": "accelerate"},
            variant=name != "fsdp2",
        )
        for name in ("ddp", "fsdp", "fsdp2", "zero1", "zero2", "zero3")
    },
    **{
        f"{name} bf16": Case(program, name, launchers, _BF16, _ROUGHLY, variant=True)
        for name, program, launchers in (
            ("ddp", "train_ddp.py", TORCH),
            ("fsdp", "train_fsdp1.py", TORCH),
            ("fsdp2", "train_fsdp2.py", TORCH),
            ("zero1", "train_deepspeed.py", _ZERO),
            ("zero2", "train_deepspeed.py", _ZERO),
            ("zero3", "train_deepspeed.py", _ZERO),
        )
    },
}
"""tp x pp x dp where degrees are named. fp16 and the compression hooks need a GPU."""


def once() -> tuple[tuple[str, str], ...]:
    """Every strategy with one launcher, in turns."""
    found, turn = [], 0
    for name, case in CASES.items():
        if case.variant:
            continue
        found.append((name, KEPT.get(name, case.launchers[turn % len(case.launchers)])))
        turn += len(case.launchers) > 1
    return tuple(found)


KEPT = {
    "fsdp": "deepspeed no_ssh",
    "fsdp2 tp": "srun",
    "zero3 offload": "deepspeed pdsh",
    "3d 1x2x2": "torchrun static",
    "accelerate fsdp2": "accelerate",
}
"""One case of each program and one of each launcher, beside plain DDP under torchrun's c10d, which
is the reference: those of ``make test``."""


def stopped() -> frozenset[str]:
    """One case of each program: those that the tests stop in the middle. The table stops all."""
    chosen = {case.program: name for name, case in CASES.items() if not case.variant}
    return frozenset(chosen.values())


WARNED = frozenset({"ddp", "fsdp2 tp", "zero3 offload", "accelerate fsdp2"})
"""One case of each format of checkpoints: one file, torch's shards, DeepSpeed's, accelerate's."""


def product() -> tuple[tuple[str, str], ...]:
    """Every case with every launcher that may start it."""
    return tuple((name, launcher) for name, case in CASES.items() for launcher in case.launchers)


def apart(losses: tuple[float, ...], reference: tuple[float, ...]) -> float:
    """The largest relative difference to the reference."""
    pairs = zip(losses, reference, strict=True)
    return max(abs(mine - theirs) / abs(theirs) for mine, theirs in pairs)


@dataclass(frozen=True)
class Outcome:
    """What one case did."""

    losses: tuple[float, ...]
    """Of every step, the first half from the first job and the rest from the second."""
    held: tuple[RankStates, ...]
    """By rank, as measured in the process: what the optimizer holds is one number, so ``master``
    is among ``moments``."""
    resumed: int


def run(cluster: Cluster, case: Case, launcher: str, folder: Path, *, stop: bool) -> Outcome:
    """The job of a case; with ``stop`` two jobs, one after the other."""
    first = report(_submit(cluster, case, launcher, folder, SAVED))[0]["losses"] if stop else ()
    second = report(_submit(cluster, case, launcher, folder, STEPS))
    return Outcome(
        losses=(*first, *second[0]["losses"]),
        held=tuple(_held(case, said) for _, said in sorted(second.items())),
        resumed=second[0]["resumed_from"],
    )


def warned(cluster: Cluster, case: Case, launcher: str, folder: Path) -> Outcome:
    """One job that is told in the middle that its time is up: it saves, waits, and goes on."""
    checkpoints = str(cluster.scratch / "checkpoints" / folder.name)
    data = job(case, launcher, checkpoints, STEPS) | _compiled(cluster, case)
    # nothing is saved but at the warning and at the end
    data["run"] += " --save-every=1000"
    data["checkpoint"] |= {"grace": "30m", "requeue": True}
    hold(_copied(folder / "once") / "run.py", f"at.step >= {WARNED_AT} and {NOT_ASKED}")
    done = submit(cluster, write(folder / "once", data))
    until(lambda: f"step {WARNED_AT} loss".encode() in done.ranks().get(0, b""), done.story)
    told = done.jobgen("cancel", "--signal", "USR1")
    assert told.returncode == 0, told.stderr
    until(lambda: cluster.job(done.job).get("Restarts") == "1", done.story)
    cluster.start_now(done.job)
    assert done.wait() == 0, done.story()
    first, second = report(done)[0], report(done, restart=1)
    assert done.show()["restarts"] == 1
    return Outcome(
        losses=(*first["losses"], *second[0]["losses"]),
        held=tuple(_held(case, said) for _, said in sorted(second.items())),
        resumed=second[0]["resumed_from"],
    )


def job(case: Case, launcher: str, checkpoints: str, steps: int) -> dict[str, Any]:
    """The job file, as data."""
    train = {"precision": "fp32", "micro_batch": MICRO, "global_batch": GLOBAL, "seq_len": SEQ}
    words = [case.program, f"--steps={steps}", f"--save-every={SAVED}", *SMALL]
    return {
        "name": "strategy",
        "run": " ".join(words),
        "nodes": 2,
        "procs_per_node": 2,
        "time": "2h",
        "launcher": LAUNCHERS[launcher],
        "checkpoint": {"dir": checkpoints},
        "train": {**train, "strategy": case.strategy, "gradient_clipping": 1.0, **case.train},
    }


def _submit(cluster: Cluster, case: Case, launcher: str, folder: Path, steps: int) -> Run:
    source = _copied(folder / f"to-{steps}")
    checkpoints = cluster.scratch / "checkpoints" / folder.name
    data = job(case, launcher, str(checkpoints), steps) | _compiled(cluster, case)
    done = submit(cluster, write(source, data))
    assert done.wait() == 0, done.story()
    return done


def _compiled(cluster: Cluster, case: Case) -> Mapping[str, Any]:
    """What DeepSpeed would compile for a minute on the nodes; ZeRO-1 does so there."""
    if "zero" not in str(case.strategy) or case.strategy == "zero1":
        return {}
    folder = cluster.scratch / "extensions"
    if not folder.exists():
        copy_extensions(folder)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, UID, UID)
    return {"env": {"TORCH_EXTENSIONS_DIR": str(folder)}}


def _copied(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("job.*", "__pycache__"))
    return folder


def report(done: Run, restart: int = 0) -> dict[int, dict[str, Any]]:
    """What each rank says at its end in one start of the job, by rank."""
    texts = (text.decode() for text in done.ranks(restart).values())
    lines = (re.search(r"^report (\{.*\})$", text, re.MULTILINE) for text in texts)
    said = [json.loads(line[1]) for line in lines if line]
    assert len(said) == 4, done.story()
    return {each["rank"]: each for each in said}


def _held(case: Case, said: Mapping[str, int]) -> RankStates:
    # ZeRO reduces into a bucket, and keeps views of it: its gradients are counted by elements
    grads = "grad_shard_bytes" if "zero" in str(case.strategy) else "grad_bytes"
    return RankStates(
        said["param_bytes"], said[grads], 0, said["optim_bytes"], said["counter_bytes"]
    )


def expected(case: Case) -> tuple[RankStates, ...]:
    """What the formulas say of every rank, in the form that is measured."""
    spec = load_job(yaml.safe_dump(job(case, case.launchers[0], "ckpt", STEPS)), "job.yaml").value
    assert spec.train is not None
    world = RankLayout(2, 2, "ethernet", gpus=False)
    known, _ = read_sizes(spec.train, {})
    decided = decide(spec.train, known, world, launcher=case.launchers[0])
    said = (
        compute_states(decided, _units(decided.mesh, rank), rank) for rank in range(world.ranks)
    )
    # ZeRO-3 leaves small parameters whole, beside their shards
    small = PERSISTENT if decided.name == "zero3" else 0
    shapes = (prod(shape) for unit in _units(decided.mesh, 0) for shape in unit)
    width = 4 if decided.precision == "fp32" else 2
    whole = width * sum(count for count in shapes if count <= small)
    return tuple(
        h._replace(params=h.params + whole, master=0, moments=h.master + h.moments) for h in said
    )


_DIVIDED = {"query": 0, "key": 0, "value": 0, "up": 0, "out": 1, "down": 1}
"""Linear layer of a block → the dimension of its weight that the example's programs divide."""


def _units(mesh: Mesh, rank: int) -> tuple[tuple[Shape, ...], ...]:
    """The shapes of the example's parameters on this rank: each block, and what is in none."""
    import torch

    with torch.device("meta"):
        gpt = _example()
        small = dict(word.removeprefix("--").split("=") for word in SMALL)
        hidden = int(small["hidden"])
        each = int(small["layers"]) // mesh.pp
        first = rank // (mesh.world // mesh.pp) * each  # a stage is a row of neighbouring ranks
        model = gpt.GPT(
            gpt.Sizes(int(small["layers"]), hidden, int(small["heads"]), 4 * hidden, SEQ),
            0,
            range(first, first + each),
        )
    blocks = [m for m in model.modules() if isinstance(m, gpt.Block)]
    inside = {p for block in blocks for p in block.parameters()}
    root = tuple(tuple(p.shape) for p in model.parameters() if p not in inside)
    return (*(tuple(_shapes(block, mesh.tp)) for block in blocks), root)


def _shapes(block: nn.Module, tp: int) -> Iterator[Shape]:
    for name, weight in block.named_parameters():
        yield divide_shape(tuple(weight.shape), _DIVIDED.get(name.split(".")[-2]), tp)


@cache
def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gpt", EXAMPLE / "gpt.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gpt"] = module
    # a job uploads the example's folder, __pycache__ and all
    kept, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    spec.loader.exec_module(module)
    sys.dont_write_bytecode = kept
    return module
