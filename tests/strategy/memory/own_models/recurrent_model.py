"""A recurrent language model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

WORDS, WIDTH = 1500, 128


class Recurrent(nn.Module):
    """A cell that is written out, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.cell = nn.GRUCell(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words: Tensor) -> Tensor:
        """The loss."""
        x = self.embed(words)
        state = x.new_zeros(len(words), WIDTH)
        states = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            states.append(state)
        scores = self.head(torch.stack(states, 1)).flatten(0, 1)
        return nn.functional.cross_entropy(scores, words.flatten())


def build_model() -> nn.Module:
    """The model."""
    return Recurrent()


def example_batch(micro_batch: int) -> Tensor:
    """Words."""
    return torch.randint(WORDS, (micro_batch, 32))
