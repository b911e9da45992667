"""What attention in one kernel reaches of a GPU's peak."""

from __future__ import annotations

import pytest

from jobgen.strategy.speed.attention_rates import Span, get_attention_rate
from tests.strategy.speed.setups import A100, H100

H20 = H100._replace(gpu="H20-SXM5-96GB", peak=148e12)


@pytest.mark.parametrize(
    ("width", "length", "ahead", "back"),
    [
        # figures 5 and 6 of arXiv 2407.08608: forward causal, and backward without a mask times
        # what the mask costs forward
        (128, 8192, 333e12, 318e12 * 333 / 370),
        (128, 1024, 260e12, 260e12 * 260 / 350),
        (64, 4096, 284e12, 279e12 * 284 / 321),
        (80, 2048, 298e12, 291e12 * 298 / 362),
        # outside of the figures, the nearest length
        (128, 131072, 335e12, 322e12 * 335 / 370),
        (128, 128, 191e12, 214e12 * 191 / 309),
    ],
)
def test_flash_attention_2_on_an_h100_has_its_authors_rate(
    width: int, length: int, ahead: float, back: float
) -> None:
    for backward, rate in ((False, ahead), (True, back)):
        found = get_attention_rate(
            H100, "torchtitan", backward=backward, width=width, span=Span(length)
        )
        assert found == pytest.approx(rate, rel=1e-3)


@pytest.mark.parametrize(("ranks", "share"), [(2, 1 / 2), (8, 1 / 8)])
def test_only_the_first_step_of_a_ring_has_a_mask(ranks: int, share: float) -> None:
    # 16384 tokens of each rank: 335 TFLOP/s with a mask, 370 and 322 without one
    for backward, rate in ((False, 370e12), (True, 322e12)):
        found = get_attention_rate(
            H100, "torchtitan", backward=backward, span=Span(16384 * ranks, ranks)
        )
        masked = rate * 335 / 370
        assert found == pytest.approx(1 / (share / masked + (1 - share) / rate), rel=1e-3)


def test_a_length_between_two_of_the_figure_has_a_rate_between_theirs() -> None:
    rates = [get_attention_rate(H100, "none", span=Span(each)) for each in (2048, 3000, 4096)]
    assert rates[0] < rates[1] < rates[2]


def test_cudnn_is_slower_with_narrow_heads_where_tensor_cores_are_fast() -> None:
    for machine, share in ((H100, 414 / 526), (H20, 1.0), (A100, 1.0)):
        wide, narrow = (
            get_attention_rate(machine, "megatron", fused=True, width=width) for width in (128, 64)
        )
        assert narrow == pytest.approx(wide * share, rel=5e-3)


def test_other_kernels_and_gpus_have_one_rate_for_every_length() -> None:
    for machine, framework, fused in (
        (A100, "torchtitan", False),
        (H20, "torchtitan", False),
        (H100, "mosaic", False),  # the first FlashAttention
        (H100, "megatron", True),  # cuDNN's
    ):
        lengths = {
            get_attention_rate(machine, framework, fused=fused, span=Span(each))
            for each in (512, 16384)
        }
        assert len(lengths) == 1, machine.gpu
