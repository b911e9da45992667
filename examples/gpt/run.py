"""What the programs share and what no strategy changes: meeting, stopping, checkpoints, a report.

A checkpoint is a folder ``step-00000010``. All ranks write into ``step-00000010.part``, which rank
0 renames when all have done so: a folder with that name is whole, whenever a rank was killed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

# DDP and optimizers import it. Where that is after the process group was made, it keeps the group:
# gloo's threads go on, and Python aborts if one of them frees a tensor while it ends
import torch._dynamo
import torch.distributed as dist
from gpt import HERE, Sizes
from torch import Tensor

KEPT = 2  # checkpoints: the newest, and one more
Batches = tuple[tuple[Tensor, Tensor], ...]  # samples and targets of each micro-batch of a step


@dataclass(frozen=True)
class World:
    """Who we are among all processes of the job."""

    rank: int
    size: int
    device: torch.device

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, the same on every rank."""
        dist.all_reduce(values)
        return values

    def mean(self, value: Tensor) -> float:
        """The mean of a number over all ranks, such as the loss that each has of its samples."""
        return self.sum(value.detach().clone()).item() / self.size

    def agree(self, value: Any) -> Any:
        """What rank 0 says."""
        said = [value]
        dist.broadcast_object_list(said)
        return said[0]

    def say(self, text: str) -> None:
        """Print once, not once per rank."""
        if self.rank == 0:
            print(text, flush=True)


def leave() -> None:
    """End the process group, and under gloo the process.

    DeepSpeed, FSDP and meshes of devices keep the groups, and so gloo's threads: Python aborts if
    one of them frees a tensor while it ends (see above). So it does not end by itself.
    """
    gloo = dist.get_backend() == "gloo"
    dist.destroy_process_group()
    if gloo:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def decided() -> dict[str, Any]:
    """What ``$JOBGEN_STRATEGY`` says; nothing without it."""
    file = os.environ.get("JOBGEN_STRATEGY")
    return dict(json.loads(Path(file).read_text())) if file else {}


def join() -> World:
    """Meet the others: under a launcher by its variables, else alone.

    The launcher has started one process for each GPU. To start more from here (``mp.spawn``) would
    make as many for each of them, with ranks that clash.
    """
    torch.set_num_threads(1)  # several ranks share the cores of a node
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if gpu else None
    if device:
        torch.cuda.set_device(device)
    # gloo as well on GPUs: what is kept on the CPU is reduced there
    backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
    if "RANK" in os.environ:
        longest = decided().get("timeout_seconds")  # None: torch's own
        timeout = timedelta(seconds=longest) if longest else None
        dist.init_process_group(backend, timeout=timeout, device_id=device)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    return World(dist.get_rank(), dist.get_world_size(), device or torch.device("cpu"))


@dataclass
class Plan:
    """The strategy as jobgen has decided it: what ``$JOBGEN_STRATEGY`` says, or these defaults."""

    strategy: str
    mesh: dict[str, int] = field(default_factory=dict)
    """Ranks of each dimension, outermost first."""
    precision: str = "fp32"
    micro_batch: int = 4
    gradient_accumulation: int = 1
    global_batch: int | None = None
    seq_len: int = 128
    gradient_clipping: float | None = None
    activation_checkpointing: str = "none"
    offload: str | None = None
    fused_optimizer: bool | None = None
    """None: torch's own choice."""
    reduce_dtype: str | None = None
    buffer_dtype: str | None = None
    wrap_min_params: int | None = None
    full_state_dict: bool = False
    own: dict[str, Any] = field(default_factory=dict)
    """What only this strategy has."""

    @property
    def data(self) -> int:
        """Ranks that see different samples."""
        return self.mesh["dp_replicate"] * self.mesh["dp_shard"]

    @property
    def samples(self) -> int:
        """Of one step of the optimizer, over all ranks."""
        return self.micro_batch * self.gradient_accumulation * self.data

    @classmethod
    def read(cls, known: Sequence[str], args: argparse.Namespace, size: int) -> Plan:
        """The plan for so many ranks; a strategy that the program is not for ends it."""
        said = decided() or {"strategy": known[0]}
        if said["strategy"] not in known:
            raise SystemExit(f"this program is for {', '.join(known)}, not {said['strategy']}")
        own = next((v for k, v in said.items() if k in ("ddp", "fsdp", "fsdp2")), {})
        names = cls.__dataclass_fields__
        values = {k: v for k, v in said.items() if k in names and v is not None}
        asked = {"micro_batch": args.micro_batch, "seq_len": args.seq_len}
        return cls(**{k: v for k, v in asked.items() if v} | values, own=own).fit(size)

    def fit(self, size: int) -> Plan:
        """For the ranks that there are: an elastic job may begin again with fewer, or more."""
        axes = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
        mesh = {axis: self.mesh.get(axis, 1) for axis in axes}
        rest = mesh["pp"] * mesh["cp"] * mesh["tp"]
        data, left = divmod(size, rest)
        if left:
            raise SystemExit(f"{size} ranks are no multiple of pp x cp x tp = {rest}")
        if mesh["dp_replicate"] * mesh["dp_shard"] != data:
            copies = "dp_shard" if mesh["dp_shard"] == 1 and self.strategy in {"ddp", "3d"} else ""
            mesh |= {"dp_replicate": data if copies else 1, "dp_shard": 1 if copies else data}
        if self.global_batch:  # stays what it was, as far as it can
            self.gradient_accumulation = max(1, self.global_batch // (self.micro_batch * data))
        self.mesh = mesh
        return self


@dataclass
class Progress:
    """How far the training has come. ``seen``: samples of this epoch, of all ranks together."""

    step: int = 0
    epoch: int = 0
    seen: int = 0
    ranks: int = 0
    """How many there were when it was saved."""


Store = Callable[[Path, Progress], None]


class Checkpoints:
    """The folder of checkpoints; without ``$JOBGEN_CHECKPOINT_DIR`` there are none.

    How a checkpoint is written and read is the program's own: ``save`` and ``load`` get a folder.
    """

    def __init__(self, world: World, save: Store, load: Store, fail: Any = None) -> None:
        folder = os.environ.get("JOBGEN_CHECKPOINT_DIR")
        self.world, self.folder = world, Path(folder) if folder else None
        self._save, self._load, self.fail = save, load, fail

    def newest(self) -> tuple[Path, Progress] | None:
        """The last whole checkpoint, if there is one. What one rank finds, all must use.

        What a killed job has left unfinished is removed.
        """
        found = None
        if self.folder and self.world.rank == 0:
            for part in self.folder.glob("step-*.part"):
                shutil.rmtree(part, ignore_errors=True)
            found = max((p for p in self.folder.glob("step-*") if not p.suffix), default=None)
        found = self.world.agree(found)
        if found is None:
            return None
        return found, Progress(**json.loads((found / "progress.json").read_text()))

    def load(self) -> Progress:
        """Go back to the last whole checkpoint."""
        found = self.newest()
        if found is None:
            return Progress()
        folder, at = found
        self.world.say(f"going on from step {at.step}, saved by {at.ranks} ranks")
        self._load(folder, at)
        self._random(folder)
        return at

    def save(self, at: Progress) -> None:
        """Write a checkpoint that gets its name when every rank has written its part."""
        if self.folder is None:
            return
        whole = self.folder / f"step-{at.step:08}"
        part = whole.with_suffix(".part")
        if self.world.agree(whole.exists()):
            return
        part.mkdir(parents=True, exist_ok=True)
        self._save(part, at)
        state = {"cpu": torch.get_rng_state()}
        if self.world.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state()
        torch.save(state, part / f"random-{self.world.rank}.pt")
        if self.fail == (at.step, self.world.rank):
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()
        if self.world.rank == 0:
            now = replace(at, ranks=self.world.size)
            (part / "progress.json").write_text(json.dumps(asdict(now)))
            flush(part)
            part.rename(whole)
            print(f"saved at step {at.step}", flush=True)
            for old in sorted(p for p in self.folder.glob("step-*") if not p.suffix)[:-KEPT]:
                gone = old.rename(old.with_suffix(".part"))  # first it is no checkpoint any more
                shutil.rmtree(gone, ignore_errors=True)
        dist.barrier()

    def _random(self, folder: Path) -> None:
        """Let this rank's random numbers go on; a rank that was not there keeps its own."""
        file = folder / f"random-{self.world.rank}.pt"
        if file.exists():
            found = torch.load(file, weights_only=True)
            torch.set_rng_state(found["cpu"])
            if self.world.device.type == "cuda":
                torch.cuda.set_rng_state(found["cuda"])


def training(
    at: Progress,
    args: argparse.Namespace,
    checkpoints: Checkpoints,
    epoch: Callable[[Progress], Iterator[Batches]],
    samples: int,
    exposed: Callable[[], float | None] = lambda: None,
) -> Iterator[Batches]:
    """The micro-batches of each step, until the last step or until the job is asked to stop.

    What the program does with them is a step. Between two of them the checkpoints are made.
    ``epoch`` gives what is left of an epoch, ``samples`` is what all ranks take in a step.
    ``exposed`` tells the seconds of a step in which it only waited for the other ranks.
    """
    times = Times()
    while at.step < args.steps:
        begun = at.step
        for batches in times.waited(epoch(at), args.slow_data):
            if stop_asked(checkpoints.world):
                checkpoints.save(at)
                stopped(checkpoints.world, at)
                return
            yield batches
            times.stepped()
            at.step, at.seen = at.step + 1, at.seen + samples
            if at.step % args.save_every == 0 or at.step == args.steps:
                checkpoints.save(at)
            time.sleep(args.pause)
            if at.step == args.steps:
                report(checkpoints.world, times, samples, exposed())
                return
        if at.step == begun and not at.seen:
            raise SystemExit(f"the text has fewer than the {samples} samples of one step")
        at.epoch, at.seen = at.epoch + 1, 0


@dataclass
class Times:
    """Seconds of each step, and of each step those in which it waited for its data."""

    steps: list[float] = field(default_factory=list)
    data: list[float] = field(default_factory=list)
    begun: float = 0.0

    def waited(self, batches: Iterator[Batches], slow: float) -> Iterator[Batches]:
        """The same batches; ``slow`` seconds are slept for each, as a slow disk would."""
        while True:
            self.begun = time.monotonic()
            time.sleep(slow)
            found = next(batches, None)
            if found is None:
                return
            self.data.append(time.monotonic() - self.begun)
            yield found

    def stepped(self) -> None:
        """A step has ended. The loss is read in it, so a GPU has ended it too."""
        self.steps.append(time.monotonic() - self.begun)

    @property
    def told(self) -> dict[str, list[float]]:
        """As jobgen reads them: the last ones, and never the first, which warms up."""
        found = {"step_s": self.steps, "data_s": self.data}
        return {key: [round(s, 5) for s in times[1:][-100:]] for key, times in found.items()}


def stop_asked(world: World) -> bool:
    """Whether any rank sees the stop file. All must decide alike, or the others would hang."""
    path = os.environ.get("JOBGEN_STOP_FILE")
    seen = torch.tensor(float(path is not None and Path(path).exists()), device=world.device)
    return bool(world.sum(seen) > 0)


def stopped(world: World, at: Progress) -> None:
    """Tell the job that all is saved and it may end: it is requeued and goes on later."""
    world.say(f"asked to stop: saved at step {at.step}")
    path = os.environ.get("JOBGEN_STOPPED_FILE")
    if path and world.rank == 0:
        Path(path).touch()


def report(world: World, times: Times, samples: int, exposed: float | None) -> None:
    """Tell jobgen how it went: show prints it, plan holds a peak against the next estimate, and
    bench scaling finds what a step waits for."""
    path = os.environ.get("JOBGEN_REPORT_FILE")
    if not path or world.rank or not times.steps:
        return
    said: dict[str, Any] = {**times.told, "samples_per_step": samples}
    said["samples_per_second"] = samples * len(times.steps) / sum(times.steps)
    if exposed is not None:
        said["comm_s"] = exposed
    if world.device.type == "cuda":
        said["peak_allocated_bytes"] = torch.cuda.max_memory_allocated()
        said["peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
    Path(path).write_text(json.dumps(said), encoding="utf-8")


def flush(folder: Path) -> None:
    """Have the files on disk before their folder gets its name: a node may fail, too."""
    for path in (*(p for p in folder.rglob("*") if p.is_file()), folder):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def arguments(about: str | None) -> argparse.Namespace:
    """The command line, the same for all programs. What the strategy says comes from jobgen."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=40, help="of the optimizer")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--save-every", type=int, default=10, help="steps")
    parser.add_argument("--windows", type=int, help="of the text: fewer make an epoch shorter")
    for size in ("layers", "hidden", "heads", "ffn"):
        parser.add_argument(f"--{size}", type=int, help="another than model.json says")
    for key, what in (("seq-len", "tokens"), ("micro-batch", "samples of a rank at once")):
        parser.add_argument(f"--{key}", type=int, help=f"{what}, where no strategy.json says it")
    parser.add_argument("--clip", type=float, help="the same of the gradients' norm")
    parser.add_argument("--recompute", default="none", choices=("none", "selective", "full"))
    parser.add_argument("--pause", type=float, default=0, help="seconds to sleep after a step")
    parser.add_argument(
        "--slow-data", type=float, default=0, help="seconds to sleep before each step's data"
    )
    parser.add_argument(
        "--fail", help="STEP:RANK kills itself with the step's checkpoint half made"
    )
    args = parser.parse_args()
    step, _, rank = (args.fail or "").partition(":")
    args.fail = (int(step), int(rank)) if args.fail else None
    return args


def sizes(args: argparse.Namespace, seq_len: int) -> Sizes:
    """The model's sizes: what the command line says, else ``model.json``."""
    said = {k: v for k in ("layers", "hidden", "heads", "ffn") if (v := getattr(args, k))}
    if "hidden" in said:
        said.setdefault("ffn", 4 * said["hidden"])
    return Sizes.read(HERE / "model.json", seq_len)._replace(**said, dropout=args.dropout)
