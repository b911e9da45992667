"""A training of examples/gpt whose ranks are killed, any of them at any moment, loses little.

It goes on from the newest whole checkpoint, which is never older than the interval, and ends as
the training that nobody disturbed: bit for bit, with dropout and over the end of an epoch. What is
killed and when follows from the trial's name. ``pytest --faults N`` makes N rounds of all formats.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.examples.starts import Start, Warm
from tests.extensions import NAME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train("torch", "deepspeed", "accelerate"),
]

STEPS, EVERY, KEPT = 7, 2, 2
WORDS = (
    *("--layers=2", "--hidden=32", "--heads=2", "--dropout=0.1", "--windows=23"),
    *(f"--steps={STEPS}", f"--save-every={EVERY}"),
)
BATCH = {"micro_batch": 2, "gradient_accumulation": 2, "global_batch": 8, "seq_len": 16}
FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_TORCH_DEVICE": "cpu",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "false",
    "FSDP_OFFLOAD_PARAMS": "false",
}
FSDP1 = {"FSDP_VERSION": "1", "FSDP_SHARDING_STRATEGY": "FULL_SHARD"}
FSDP2 = {"FSDP_VERSION": "2", "FSDP_RESHARD_AFTER_FORWARD": "true"}
ZERO = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_TORCH_DEVICE": "cpu"}


class Kind(NamedTuple):
    """A program and its strategy: a format of checkpoints."""

    program: str
    strategy: str
    env: Mapping[str, str] = {}
    mesh: Mapping[str, int] = {}


KINDS = {
    "ddp": Kind("train_ddp", "ddp"),
    "fsdp": Kind("train_fsdp1", "fsdp"),
    "fsdp2": Kind("train_fsdp2", "fsdp2"),
    "3d": Kind("train_3d", "3d", mesh={"pp": 2}),
    "zero1": Kind("train_deepspeed", "zero1"),
    "zero3": Kind("train_deepspeed", "zero3"),
    "accelerate ddp": Kind("train_accelerate", "ddp", {"ACCELERATE_USE_CPU": "true"}),
    "accelerate fsdp": Kind("train_accelerate", "fsdp", {**FSDP, **FSDP1}),
    "accelerate fsdp2": Kind("train_accelerate", "fsdp2", {**FSDP, **FSDP2}),
    "accelerate zero2": Kind("train_accelerate", "zero2", ZERO),
}
FEW = ("ddp saving", "fsdp2 saving", "zero3 saving", "accelerate fsdp2 anywhen")
"""One of each format, for every run of the tests."""
MOMENTS = ("anywhen", "start", "saving", "step")


def trials(times: int) -> Iterator[str]:
    """Names: a kind, a moment, and with more than one round its number."""
    if times == 1:
        yield from FEW
        return
    for number in range(times):
        yield from (f"{kind} {moment} {number}" for kind in KINDS for moment in MOMENTS)


@dataclass
class Training:
    """One training with its folder of checkpoints, started again and again."""

    warm: Warm
    kind: Kind
    folder: Path
    starts: int = 0

    def start(self) -> Start:
        """Submit it, or submit it again."""
        self.folder.mkdir(exist_ok=True)
        said = {**BATCH, "strategy": self.kind.strategy, "mesh": {**self.kind.mesh}}
        plan = self.folder / "strategy.json"
        plan.write_text(json.dumps({"gradient_clipping": 1.0, **said}))
        config = self.folder / "ds_config.json"
        config.write_text(json.dumps(_zero(self.kind.strategy)))
        env = {
            "JOBGEN_STRATEGY": str(plan),
            "JOBGEN_CHECKPOINT_DIR": str(self.folder / "checkpoints"),
            "JOBGEN_DEEPSPEED_CONFIG": str(config),
            "ACCELERATE_DEEPSPEED_CONFIG_FILE": str(config),
            **self.kind.env,
        }
        self.starts += 1
        place = self.folder / f"start-{self.starts}"
        return self.warm.start(place, self.kind.program, WORDS, env)

    def begun(self) -> set[int]:
        """The steps of all checkpoints, whole or not."""
        return {*self.found(), *self.found(".part")}

    def found(self, pattern: str = "") -> list[int]:
        """The steps of the checkpoints that are whole, or else of what has this suffix."""
        names = (p.name for p in (self.folder / "checkpoints").glob(f"step-*{pattern}"))
        steps = (re.fullmatch(rf"step-(\d+){re.escape(pattern)}", name) for name in names)
        return sorted(int(step[1]) for step in steps if step)


def _zero(strategy: str) -> dict[str, Any]:
    return {
        "train_batch_size": BATCH["global_batch"],
        "train_micro_batch_size_per_gpu": BATCH["micro_batch"],
        "gradient_accumulation_steps": BATCH["gradient_accumulation"],
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": int(strategy[-1]) if strategy.startswith("zero") else 0},
    }


class Whole(NamedTuple):
    """What a training does that nobody disturbs."""

    losses: list[list[float]]
    """By rank."""
    seconds: float
    folder: Path


@pytest.fixture(scope="module")
def undisturbed(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    """The training of a kind that runs through; each once."""
    done: dict[str, Whole] = {}

    def get(name: str) -> Whole:
        if name not in done:
            training = Training(warm, KINDS[name], tmp_path_factory.mktemp("whole"))
            began = time.monotonic()
            start = training.start()
            assert start.wait() == [0, 0], start.said()
            seconds = time.monotonic() - began
            losses = [said["losses"] for said in reports(start)]
            done[name] = Whole(losses, seconds, training.folder)
        return done[name]

    return get


def reports(start: Start) -> list[dict[str, Any]]:
    """What each rank reports at its end."""
    lines = (re.search(r"^report (\{.*\})$", start.text(rank), re.M) for rank in (0, 1))
    return [json.loads(line[1]) for line in lines if line]


@pytest.mark.trials("name", trials)
def test_what_is_killed_goes_on_from_its_newest_checkpoint(
    warm: Warm, undisturbed: Callable[[str], Whole], tmp_path: Path, name: str
) -> None:
    kind, moment = re.fullmatch(r"(.*) ([a-z]+)(?: \d+)?", name).groups()  # type: ignore[union-attr]
    whole = undisturbed(kind)
    chance = Random(name)  # noqa: S311
    training = Training(warm, KINDS[kind], tmp_path / "training")
    newest = 0
    for _ in range(chance.choice((1, 1, 2))):
        start = training.start()
        strike(training, start, moment, chance, whole.seconds)
        start.wait()
        newest = _left(training, start, newest)
    last = training.start()
    assert last.wait() == [0, 0], last.said()
    for said, losses in zip(reports(last), whole.losses, strict=True):
        assert said["resumed_from"] == newest, last.said()
        assert said["losses"] == losses[newest:]
    assert training.found() == [6, 7]
    assert training.found(".part") == []


def strike(training: Training, start: Start, moment: str, chance: Random, seconds: float) -> None:
    """Kill a rank: at any time, while it starts or saves, or some time behind a step."""
    rank = chance.randrange(2)
    if moment in ("anywhen", "start"):
        start.ended(chance.uniform(0, seconds * (1 if moment == "anywhen" else 0.4)))
    elif moment == "saving":
        before, number = set(training.found()), chance.choice((2, 4, 6, 7))
        _until(start, lambda: any(step >= number for step in training.begun() - before))
        start.ended(10 ** chance.uniform(-4, -0.7))  # most checkpoints take some hundredths
    else:
        step = chance.randint(1, STEPS)
        _until(start, lambda: f"step {step} loss" in start.text(0))
        start.ended(chance.uniform(0, 0.2))
    start.kill(rank)


def _until(start: Start, so: Callable[[], bool]) -> None:
    while not so() and not start.ended(0.001):
        pass


def _left(training: Training, start: Start, before: int) -> int:
    """The step of the newest whole checkpoint, after a look at what a start has left."""
    steps = [int(step) for step in re.findall(r"^step (\d+) loss", start.text(0), re.M)]
    newest = max(training.found(), default=0)
    # a step is said before it is saved
    assert newest >= (max(steps, default=1) - 1) // EVERY * EVERY, start.said()
    assert newest >= before
    assert len(training.found()) <= KEPT + 1
    went_on = re.search(r"^going on from step (\d+)", start.text(0), re.M)
    assert not went_on or int(went_on[1]) == before
    return newest


def test_what_was_killed_while_it_was_removed_is_gone_after_the_next_start(
    warm: Warm, undisturbed: Callable[[str], Whole]
) -> None:
    training = Training(warm, KINDS["ddp"], undisturbed("ddp").folder, starts=1)
    (training.folder / "checkpoints" / "step-00000004.part").mkdir()
    start = training.start()
    assert start.wait() == [0, 0], start.said()
    assert (training.found(), training.found(".part")) == ([6, 7], [])


@pytest.mark.parametrize("name", ["zero1", "accelerate zero2"])
def test_a_lock_that_a_killed_rank_has_left_stops_nobody(
    warm: Warm, tmp_path: Path, name: str
) -> None:
    # DeepSpeed's operators are loaded behind a file that a killed rank leaves
    lock = warm.extensions / NAME / "lock"
    lock.touch()
    start = Training(warm, KINDS[name], tmp_path / "training").start()
    assert start.wait() == [0, 0], start.said()
    assert not lock.exists()
