"""What mixes tokens where there is no attention: sizes only, as transformers 5.23 names them."""

from __future__ import annotations

from typing import Literal

from jobgen.named_tuple import NamedTuple


class GatedDelta(NamedTuple):
    """A gated delta net (arXiv:2412.06464): ``Qwen3NextGatedDeltaNet``."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    projections: Literal["joined", "split", "apart"] = "joined"
    """Qwen3-Next joins queries, keys, values and gates, Qwen3.5 splits the gates off, and
    Olmo-Hybrid has a matrix for each."""

    @property
    def keys(self) -> int:
        """Width of all keys, which is that of all queries."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Width of all values, which is that of the output."""
        return self.value_heads * self.value_dim


class KimiDelta(NamedTuple):
    """A delta net whose decay differs from channel to channel (arXiv:2510.26692):
    ``KimiLinearDeltaAttention``."""

    heads: int
    dim: int
    kernel: int

    @property
    def values(self) -> int:
        """Width of all values, of all keys and of all queries."""
        return self.heads * self.dim


class Mamba2(NamedTuple):
    """A state space model with one decay for each head (arXiv:2405.21060): ``BambaMixer``."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    chunk: int
    conv_bias: bool = True
    in_bias: bool = False
    out_bias: bool = False
    normed: bool = True
    """A gated norm stands before the last matrix."""

    @property
    def inner(self) -> int:
        """Width of all heads."""
        return self.heads * self.head_dim

    @property
    def convolved(self) -> int:
        """Width of what passes the convolution: heads, and inputs and outputs of the states."""
        return self.inner + 2 * self.groups * self.state


class Mamba1(NamedTuple):
    """A state space model with a decay for each channel (arXiv:2312.00752): ``JambaMambaMixer``."""

    inner: int
    state: int
    rank: int
    """Width to which time steps are compressed."""
    kernel: int
    conv_bias: bool = True
    bias: bool = False


class ShortConvolution(NamedTuple):
    """A gated convolution over few tokens: ``Lfm2ShortConv``."""

    kernel: int
    bias: bool = False


Mixer = GatedDelta | KimiDelta | Mamba2 | Mamba1 | ShortConvolution

TITLES: dict[type[Mixer], str] = {
    GatedDelta: "gated delta nets",
    KimiDelta: "Kimi delta nets",
    Mamba2: "Mamba-2 layers",
    Mamba1: "Mamba layers",
    ShortConvolution: "short convolutions",
}
