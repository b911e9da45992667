"""Finetune a small BERT with the Trainer of transformers."""

from __future__ import annotations

import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
)


class Sentences(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        draw = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 100, (12,), generator=draw)
        return {"input_ids": tokens, "labels": tokens[0] % 2}


def main() -> None:
    torch.set_num_threads(1)
    (args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
    if name := os.environ.get("MODEL"):
        model = AutoModelForSequenceClassification.from_pretrained(name)
    else:
        sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
        model = BertForSequenceClassification(
            BertConfig(vocab_size=100, intermediate_size=64, **sizes)
        )
    trainer = Trainer(model=model, args=args, train_dataset=Sentences())
    trainer.train(resume_from_checkpoint=os.environ.get("RESUME"))
    print("training finished", file=sys.stderr)


if __name__ == "__main__":
    main()
