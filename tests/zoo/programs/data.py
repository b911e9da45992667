"""Records of text classification: JSON lines in one shard for each rank."""

from __future__ import annotations

import json
import queue
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

VOCABULARY = 512
LENGTH = 16


class DecodeError(RuntimeError):
    """A record of a shard cannot be used."""


def write_shards(folder: Path, shards: int, records: int) -> None:
    """Synthetic shards; the label depends on the tokens, so that the loss goes down."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        draw = random.Random(shard)  # noqa: S311
        lines = []
        for _ in range(records):
            tokens = [draw.randrange(VOCABULARY) for _ in range(LENGTH)]
            lines.append(json.dumps({"tokens": tokens, "label": tokens[0] % 10}))
        (folder / f"shard-{shard:05d}.jsonl").write_text("\n".join(lines) + "\n")


class Shard(Dataset[tuple[Tensor, Tensor]]):
    """The records of one shard, decoded when they are asked for."""

    def __init__(self, folder: Path, index: int, strict: bool = False) -> None:
        self.path = folder / f"shard-{index:05d}.jsonl"
        self.strict = strict
        self.lines = self.path.read_text().splitlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.strict:
            return self.decode_strictly(index)
        record = json.loads(self.lines[index])
        return torch.tensor(record["tokens"]), torch.tensor(record["label"])

    def decode_strictly(self, index: int) -> tuple[Tensor, Tensor]:
        try:
            record = json.loads(self.lines[index])
        except json.JSONDecodeError as error:
            raise DecodeError(f"{self.path.name}: cannot decode record {index}") from error
        if len(record["tokens"]) != LENGTH:
            raise ValueError(
                f"record {index} of {self.path.name} does not fit the model:\n"
                f"  expected  {LENGTH} tokens\n"
                f"  got       {len(record['tokens'])} tokens\n"
                "Run scripts/tokenize.py --max-length 16 on this shard again."
            )
        return torch.tensor(record["tokens"]), torch.tensor(record["label"])


class Prefetcher:
    """Batches read ahead by a thread."""

    def __init__(self, batches: Iterator[tuple[Tensor, Tensor]]) -> None:
        self.batches = batches
        self.queue: queue.Queue[tuple[Tensor, Tensor]] = queue.Queue(maxsize=4)
        self.thread = threading.Thread(target=self.fill, name="prefetch", daemon=True)
        self.thread.start()

    def fill(self) -> None:
        for batch in self.batches:
            self.queue.put(batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield self.queue.get(timeout=5)
