"""Convolutions with weights as a length and a direction, and a loss over alignments (CTC)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

WIDTH, LETTERS, SAMPLES, WORDS = 64, 30, 4000, 12


class Recognizer(nn.Module):
    """Letters of a waveform."""

    def __init__(self) -> None:
        super().__init__()
        steps = [(1, 10, 5), (WIDTH, 8, 4), (WIDTH, 4, 2), (WIDTH, 4, 2)]
        self.layers = nn.ModuleList(
            weight_norm(nn.Conv1d(inner, WIDTH, size, step)) for inner, size, step in steps
        )
        self.letters = nn.Linear(WIDTH, LETTERS)

    def forward(self, waves: Tensor, words: Tensor) -> Tensor:
        """The loss; the letters that are none pad the words."""
        x = waves[:, None]
        for layer in self.layers:
            x = functional.gelu(layer(x))
        logs = functional.log_softmax(self.letters(x.transpose(1, 2)), -1).transpose(0, 1)
        spoken = words >= 0
        rows = torch.full((len(waves),), logs.shape[0])
        return functional.ctc_loss(logs, words[spoken], rows, spoken.sum(-1))


def build_model() -> nn.Module:
    """The model."""
    return Recognizer()


def example_batch(micro_batch: int) -> dict[str, Tensor]:
    """Waveforms, and words of several lengths."""
    words = torch.randint(1, LETTERS, (micro_batch, WORDS))
    words[0, WORDS // 2 :] = -1
    return {"waves": torch.randn(micro_batch, SAMPLES), "words": words}
