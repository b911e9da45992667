"""Catalogues as tables, and their one reader. Facts only; each table names its sources."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from jobgen.named_tuple import NamedTuple

_W = TypeVar("_W", bound=str)
_HERE = Path(__file__).parent


class SbatchOption(NamedTuple):
    """A long option of sbatch, and what jobgen does when it stands under ``slurm:``."""

    name: str
    """Without dashes."""
    short: str
    takes: Literal["no", "required", "optional"]
    """Whether it takes a value."""
    form: str
    """What the value looks like, in words."""
    since: str
    removed: str
    """The last release that documents it, where it is gone; else empty."""
    old: bool
    """Whether Slurm 22.05 knows it."""
    meaning: str
    rule: Literal["allow", "refuse", "join"] = "allow"
    """``refuse``: jobgen writes it itself, or it fits no batch job. ``join``: ours is added."""
    key: str = ""
    """The key of job.yaml, or the command, that does the same."""
    why: str = ""


class GpuModel(NamedTuple):
    """A GPU: figures of the vendor, dense (without structured sparsity)."""

    name: str
    aliases: tuple[str, ...]
    architecture: str
    memory_gib: int
    """As its name and its vendor say it."""
    bf16_tflops: int
    """FP16 where the architecture has no BF16."""
    multiprocessors: int
    """As torch counts them: AMD's compute units."""
    memory_gbs: int
    link: Literal["nvlink", "pcie", "infinity-fabric"]
    link_gbs: int
    """Gigabytes a second to the other GPUs of a node, both directions summed."""
    source: str
    memory_mib: int
    """What CUDA (or HIP) reports as the total: nvidia-smi's less what the driver reserves. It is a
    few MiB less with each driver, so of several numbers the table has the latest."""
    memory_source: str
    """Where that was seen; "none found" and the rule that it follows where it was not."""


class HubModel(NamedTuple):
    """A model of the Hub: what its config.json says of its sizes."""

    id: str
    aliases: tuple[str, ...]
    """Other names of it, and ids of models with the same shape."""
    type: str
    """Its ``model_type``."""
    sizes: Mapping[str, int]
    """layers, hidden, heads, kv_heads, ffn, vocab, most: 0 where its type has no such key."""
    also: tuple[str, ...]
    """More of its keys: ``key=value``."""
    params: int
    """All parameters, each once; of a model that also sees, those of its text part."""
    source: str


class DeepSpeedKey(NamedTuple):
    """A key that may stand in DeepSpeed's configuration (0.19)."""

    path: str
    """With dots; ``*`` is a name of the user's own."""
    kind: Literal["block", "free", "value", "auto"]
    """``block``: a mapping whose keys are known. ``free``: handed on as it is. ``auto``: a value
    for which DeepSpeed itself knows that word."""
    status: Literal["", "deprecated", "removed"]
    instead: str
    """What takes its place."""
    source: str

    @property
    def current(self) -> bool:
        """Whether it is there to be written."""
        return not self.status

    @property
    def strict(self) -> bool:
        """Whether it stands in a block in which DeepSpeed stops at unknown keys."""
        return "." in self.path and self.source.endswith("Config") and "." in self.source


class RunArgument(NamedTuple):
    """An argument of a training program that sets what a key of ``train`` sets."""

    framework: str
    """As in ``train.framework``; ``ds_config``: a key of DeepSpeed's file; ``axolotl``: of its
    YAML."""
    name: str
    """Without dashes before it; ``_`` and ``-`` are alike."""
    key: str
    """The key of ``train``; empty for a file that holds several."""
    values: Mapping[str, tuple[str, ...]]
    """Its word → the values of the key that mean the same, the nearest first; empty: the value
    itself. ``true`` and ``false`` are a flag that is given, or switched off."""
    distinct: bool
    """Whether the name has one meaning, whatever the framework."""
    source: str

    @property
    def is_file(self) -> bool:
        """Whether it names a configuration of DeepSpeed."""
        return not self.key

    def find_word(self, value: str) -> str:
        """Its word for a value of the key; empty if it has none."""
        words = (word for word, same in self.values.items() if value in same)
        return next(words, "") if self.values else value


@cache
def run_arguments() -> tuple[RunArgument, ...]:
    """The arguments of training programs that jobgen understands."""
    return tuple(_run_argument(row) for row in rows("run_arguments.csv"))


def _run_argument(row: dict[str, str]) -> RunArgument:
    pairs = (pair.partition("=") for pair in row["values"].split() if row["key"])
    values = {word: tuple(same.split("|")) for word, _, same in pairs if word}
    return RunArgument(
        framework=row["framework"],
        name=row["name"],
        key=row["key"],
        values=values,
        distinct=_one(row["distinct"], "yes", "no") == "yes",
        source=row["source"],
    )


@cache
def sbatch_options() -> Mapping[str, SbatchOption]:
    """Every long option of sbatch since 14.03, by its name without dashes."""
    managed = {row["option"]: row for row in rows("sbatch_managed.csv")}
    return {o.name: o for o in (_option(row, managed) for row in rows("sbatch_options.csv"))}


@cache
def launcher_options() -> Mapping[str, Mapping[str, str]]:
    """Launcher → its options that jobgen writes, without dashes → the key of a job that sets it;
    empty where jobgen alone decides."""
    options: dict[str, dict[str, str]] = {}
    for row in rows("launcher_options.csv"):
        options.setdefault(row["launcher"], {})[row["option"]] = row["key"]
    return options


@cache
def gpus() -> Mapping[str, GpuModel]:
    """The GPU catalogue, by name."""
    return {row["name"]: _gpu(row) for row in rows("gpus.csv")}


@cache
def shapes() -> tuple[HubModel, ...]:
    """The models whose sizes are known."""
    return tuple(map(_shape, rows("models.csv")))


@cache
def deepspeed_keys() -> Mapping[str, DeepSpeedKey]:
    """Every key of DeepSpeed's configuration, by its path."""
    return {row["path"]: _deepspeed_key(row) for row in rows("deepspeed_keys.csv")}


def lines(file: str) -> Iterator[list[str]]:
    """The fields of each row of a table, without its head: a third of the time of a mapping."""
    with (_HERE / file).open(encoding="utf-8", newline="") as stream:
        found = csv.reader(stream)
        next(found)
        yield from found


def rows(file: str) -> Iterator[dict[str, str]]:
    with (_HERE / file).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def _option(row: dict[str, str], managed: Mapping[str, dict[str, str]]) -> SbatchOption:
    name = row["long_option"].removeprefix("--")
    ours = managed.get(name, {})
    return SbatchOption(
        name=name,
        short=row["short"].removeprefix("-"),
        takes=_one(row["argument_kind"], "no", "required", "optional"),
        form=row["argument_form"],
        since=row["first_documented"],
        removed=row["last_documented_if_removed"],
        old=row["in_debian12_22.05"] == "yes",
        meaning=row["meaning"],
        rule=_one(ours.get("rule", "allow"), "allow", "refuse", "join"),
        key=ours.get("key", ""),
        why=ours.get("why", ""),
    )


def _gpu(row: dict[str, str]) -> GpuModel:
    return GpuModel(
        name=row["name"],
        aliases=tuple(row["aliases"].split()),
        architecture=row["architecture"],
        memory_gib=int(row["memory_gib"]),
        bf16_tflops=int(row["bf16_tflops"]),
        multiprocessors=int(row["multiprocessors"]),
        memory_gbs=int(row["memory_gbs"]),
        link=_one(row["link"], "nvlink", "pcie", "infinity-fabric"),
        link_gbs=int(row["link_gbs"]),
        source=row["source"],
        memory_mib=int(row["memory_mib"]),
        memory_source=row["memory_source"],
    )


def _shape(row: dict[str, str]) -> HubModel:
    sizes = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "most")
    return HubModel(
        id=row["id"],
        aliases=tuple(row["aliases"].split()),
        type=row["type"],
        sizes={size: int(row[size] or 0) for size in sizes},
        also=tuple(row["also"].split()),
        params=int(row["params"]),
        source=row["source"],
    )


def _deepspeed_key(row: dict[str, str]) -> DeepSpeedKey:
    return DeepSpeedKey(
        path=row["path"],
        kind=_one(row["kind"], "block", "free", "value", "auto"),
        status=_one(row["status"], "", "deprecated", "removed"),
        instead=row["instead"],
        source=row["source"],
    )


def _one(word: str, *words: _W) -> _W:
    for known in words:
        if word == known:
            return known
    raise ValueError(f"'{word}' is none of {words}")
