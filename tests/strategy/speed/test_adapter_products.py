"""Adapters beside weights: what they read and write, and what quantized weights add."""

from __future__ import annotations

import pytest

from jobgen.strategy.setup import Adapters
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.speed.compute import compute_layer
from jobgen.strategy.speed.layer_products import compute_products
from jobgen.strategy.speed.products import Both
from jobgen.strategy.speed.rates import get_memory_rate
from tests.strategy.speed.setups import A100, setup


def test_compiled_adapters_are_summed_by_what_follows() -> None:
    lora = setup(model=build_model(Architecture("lora", 4, 4096, 32, 8, 128, 14336, 32000)))
    lora = lora._replace(adapters=Adapters(8, (), dropout=False, width=2), seq=8192)
    alone = lora._replace(adapters=Adapters(8, ("none",)))

    def added(**keys: object) -> float:
        return (
            compute_layer(lora._replace(**keys), A100).products
            - compute_layer(alone._replace(**keys), A100).products
        )

    one, kernel, compiled = added(), added(framework="automodel"), added(compiled=True)
    assert one > kernel > compiled > 0
    # of 5 passes over each product's result, scaling and summing, one is left
    outer = 4096 + 2 * 1024 + 4096 + 2 * 14336 + 4096
    tokens = lora.batch.micro * 8192
    assert one - compiled == pytest.approx(4 * 2 * tokens * outer / get_memory_rate(A100))


def test_adapters_multiply_in_their_own_type_or_joined_with_the_weights() -> None:
    base = setup(model=build_model(Architecture("lora", 4, 4096, 32, 8, 128, 14336, 32000)))
    lora = Adapters(8, ("q_proj",))
    inner = outer = 4096

    def time(adapters: Adapters) -> tuple[float, float]:
        found = compute_layer(base._replace(adapters=adapters, seq=8192), A100)
        each = get_memory_rate(A100) / base.batch.micro / 8192
        return found.forward * each, found.backward * each

    plain, wide, joined = (
        time(one) for one in (lora, lora._replace(cast_back=False), lora._replace(joined=True))
    )
    # nothing is cast back, but 2 bytes more are read; fp32 is written, scaled, summed, cast
    assert wide[0] - plain[0] == pytest.approx((2 - 6) * inner + (26 - 10) * outer)
    # dropout in 16 bits, one sum forward; a comparison, a product and two sums backward
    assert joined[0] - plain[0] == pytest.approx((5 - 21) * inner + (6 - 10) * outer)
    assert joined[1] - plain[1] == pytest.approx((14 - 21) * inner - 10 * outer)
    narrow = lora._replace(width=2)
    assert time(narrow) == time(narrow._replace(cast_back=False))


def test_8_bit_weights_have_inputs_quantized_and_go_backward_in_the_type_of_the_stream() -> None:
    base = setup(model=build_model(Architecture("lora", 4, 4096, 32, 8, 128, 14336, 32000)))
    base = base._replace(seq=8192)
    inner = sum(t.shape[1] for t in base.model.layers[0].tensors if len(t.shape) == 2)
    outer = sum(t.shape[0] for t in base.model.layers[0].tensors if len(t.shape) == 2)

    def time(bits: int, *, prepared: bool = False) -> Both:
        lora = base._replace(adapters=Adapters(8, ("none",), bits, prepared=prepared))
        return compute_products(lora, A100, lora.model.layers[0].tensors)

    plain, eight, prepared = time(16), time(8), time(8, prepared=True)
    each = get_memory_rate(A100) / base.tokens
    assert (eight.forward - plain.forward) * each == pytest.approx(16 * inner + 12 * outer)
    assert plain.backward < eight.backward < 1.2 * plain.backward
    assert prepared.backward > 5 * plain.backward, "fp32 does not multiply on tensor cores"
