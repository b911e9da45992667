"""FLOP/s of attention in one kernel, by GPU and by kernel. Every number with its public origin."""

from __future__ import annotations

from math import log2

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import ClusterHardware
from jobgen.strategy.speed.rates import get_matmul_rate, look_up

FLASH = {"RTX": 0.91, "H20-": 0.57, "Hopper": 0.35, "Blackwell": 0.15, "CDNA3": 0.16}
"""What FlashAttention-2 reaches of the peak: 35 % of a H100 at the most (abstract of
FlashAttention-3, arXiv 2407.08608; ``_HOPPER`` has it by length), and 374 of a GB200's 2500 TFLOP/s
(Azure/AI-benchmarking-guide); on a graphics card, whose ordinary cores are not so far behind its
tensor cores, 191 of an RTX 5090's 209.5 (gau-nernst's blog, Writing Speed-of-Light Flash Attention
for 5090), and 84 of an H20's 148 forward (Dao-AILab/flash-attention, issue 1310). Of CDNA3 it is
torch's own attention, 209 of 1307 TFLOP/s: 7.48 % of a profile's 33.7 s (ROCm/rocm-blogs,
software-tools-optimization/primus-deep-dive) of Llama 3.1 70B, three sequences of 8192, everything
computed again (AMD-AGI/Primus, examples/torchtitan/configs/MI325X)."""
FLASH_BACK = {"CDNA3": 0.077}
"""The same of its backward pass, where it is known to be slower: 19.47 % of that profile, 101
TFLOP/s."""
FLASH_OTHERS = 0.6
"""And 50 to 73 % of an A100 (abstract of FlashAttention-2, arXiv 2307.08691)."""
FIRST_FLASH = 0.325 / 0.6
"""What the first FlashAttention reaches of it: 25 to 40 % of an A100, the same abstract."""
FUSED_FLASH = {"H20-": 0.72, "Hopper": 0.55, "Blackwell": 0.35, "CDNA3": 0.175}
"""Transformer Engine's attention is cuDNN's, near FlashAttention-3, which reaches up to 75 % of a
H100 forward and FlashAttention-2's 35 % at the least: the middle. cuDNN 9.1 has 48 % in both passes
together at 8192 tokens (``_HOPPER``'s figures), and cuDNN of 2026 1.7 to 2.3 times as many as
FlashAttention-2, 51 to 69 % (huggingface/transformers, pull request 48163). On an H20 it reaches
87 % forward, and FlashAttention-2 57 % (issue 1310 again). On a B200 it reaches up to 55 % (71 %
are 1.3 times cuDNN's, abstract of FlashAttention-4) and FlashAttention-2's 15 % at the least. On
ROCm it is Composable Kernel's: 229 of a MI300X's 1307 TFLOP/s in both passes together, the
middle of four sizes with 16,384 tokens (ROCm/flash-attention, issue 142)."""
FUSED_NARROW = {"H20-": 1.0, "Hopper": 0.79}
"""What it reaches of that with heads of 64: 414 and 426 TFLOP/s in both passes together where heads
of 128 have 526 and 539, with 4096 and 8192 tokens, without a mask, on an H100 (figures 5 and 6 of
FlashAttention-3, arXiv 2407.08608, of cuDNN 9.1). On an H20, with a seventh of the tensor cores'
speed, both reach the same (issue 1310)."""
OLD = ("mosaic", "nanogpt", "paddle")
"""Frameworks of published runs that had the first FlashAttention: llm-foundry's Triton one, torch's
before release 2.2, as nanoGPT in 2023, and PaddlePaddle's until 2.5.2 (PaddlePaddle/Paddle, pull
request 56015)."""
_NARROW = 64
"""The width of narrow heads, which all narrower ones are counted as."""
_SHORTEST = 512
_LONGEST = 16384


class Span(NamedTuple):
    """What attention reaches over."""

    tokens: int = _LONGEST
    ranks: int = 1
    """Of context parallel, which share the tokens."""


_LONG = Span()


class _Figure(NamedTuple):
    """TFLOP/s at 512 tokens and twice as many each time."""

    causal: tuple[float, ...]
    """Forward, without what the causal mask hides."""
    whole: tuple[float, ...]
    """Forward without a mask."""
    backward: tuple[float, ...]
    """Backward without a mask."""


_HOPPER = {
    64: _Figure(
        (180, 229, 262, 284, 295, 299),
        (282, 306, 318, 321, 322, 324),
        (198, 238, 264, 279, 287, 291),
    ),
    128: _Figure(
        (191, 260, 298, 319, 333, 335),
        (309, 350, 362, 368, 370, 370),
        (214, 260, 291, 310, 318, 322),
    ),
}
"""FlashAttention-2 on an H100 SXM, by the width of a head: figures 5 and 6 of FlashAttention-3
(arXiv 2407.08608, appendix C.1), at the clock of the datasheet's peak."""
_HOPPER_PEAK = 989.4
"""TFLOP/s of that H100's tensor cores (datasheet)."""


def get_attention_rate(
    machine: ClusterHardware,
    framework: str,
    *,
    fused: bool = False,
    backward: bool = False,
    width: int = 128,
    span: Span = _LONG,
) -> float:
    """FLOP/s of attention that keeps no matrix of scores, forward or backward, with heads of this
    ``width``: at most those of a matrix product. ``fused`` is Transformer Engine's."""
    part = look_up(FLASH, machine, FLASH_OTHERS)
    if framework in OLD:
        part *= FIRST_FLASH
    elif fused:
        part = look_up(FUSED_FLASH, machine, part)
        part *= look_up(FUSED_NARROW, machine, 1.0) if width <= _NARROW else 1.0
    elif machine.architecture == "Hopper" and not machine.gpu.startswith("H20-"):
        part = _read_hopper(width, span, backward=backward)
    elif backward:
        part = look_up(FLASH_BACK, machine, part)
    return min(machine.peak * part, get_matmul_rate(machine))


def _read_hopper(width: int, span: Span, *, backward: bool) -> float:
    """Part of the peak that FlashAttention-2 reaches on an H100 under a causal mask, which costs
    the backward pass what it costs the forward pass: the figures have it only there.

    Of the steps of a ring, each as much work, the first alone has a mask: in the others, all
    queries meet half of the keys, or half of them all (Transformer Engine 1.5,
    pytorch/attention.py, ``AttnFuncWithCP``; torch/distributed/tensor/experimental/_attention.py,
    Note [Context parallelism load balance algorithm for causal masking])."""
    figure, ranks = _HOPPER[_NARROW if width <= _NARROW else 128], span.ranks
    length = span.tokens // ranks
    causal, whole = (_interpolate(row, length) for row in (figure.causal, figure.whole))
    reached = ranks / (1 / causal + (ranks - 1) / whole)
    if backward:
        reached *= _interpolate(figure.backward, length) / whole
    return reached / _HOPPER_PEAK


def _interpolate(row: tuple[float, ...], length: int) -> float:
    """The value at ``length``, between neighbours in proportion to its logarithm."""
    place = log2(min(max(length, _SHORTEST), _LONGEST) / _SHORTEST)
    below = min(int(place), len(row) - 2)
    return row[below] + (row[below + 1] - row[below]) * (place - below)
