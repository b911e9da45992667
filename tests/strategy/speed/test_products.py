"""Matrix products: how far tiles fill a GPU, and what cards reach of their peak."""

from __future__ import annotations

import pytest

from jobgen.data import gpus
from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Mesh
from jobgen.strategy.speed.compute import compute_layer, count_kernels
from jobgen.strategy.speed.elementwise import count_elementwise
from jobgen.strategy.speed.layer_products import compute_products
from jobgen.strategy.speed.machine_model import build_machine
from jobgen.strategy.speed.products import Product, build_product, compute_product, measure_fill
from jobgen.strategy.speed.rates import get_matmul_rate, get_memory_rate, get_vector_rate
from jobgen.strategy.speed.step_time import compute_step
from tests.strategy.speed.setups import A100, AUTOCAST, MIXED, setup

A100_MULTIPROCESSORS = 108


@pytest.mark.parametrize(
    ("rows", "columns", "copies", "part"),
    [
        # 9 x 12 tiles of 256 x 128 are one wave
        (2304, 1536, 1, 1),
        # a row more begins another row of tiles: three waves of tiles half as large are best
        (2305, 1536, 1, 2 / 3),
        # 128 x 128: half of a multiprocessor's work, so a quarter of the wave is left over
        (128, 128, 27, 0.25),
        (128, 128, 108, 1),
    ],
)
def test_tiles_at_the_edge_and_the_last_wave_are_computed_whole(
    rows: int, columns: int, copies: int, part: float
) -> None:
    filled = measure_fill(rows, columns, copies, A100_MULTIPROCESSORS)
    assert filled == pytest.approx(part, rel=1e-3)


def test_large_products_fill_a_gpu() -> None:
    assert measure_fill(65536, 16384, 1, A100_MULTIPROCESSORS) > 0.98


def test_widths_of_an_odd_multiple_of_8_are_slow_where_cublas_has_no_large_tiles_for_them() -> None:
    # pytorch/pytorch, issue 181718: 89.6 and 83.6 TFLOP/s where the next width has 155.9
    def rate(width: int, gpu: str) -> float:
        machine = build_machine(gpus()[gpu], 8, 25e9, "infiniband")
        one = Product(8192, width, width, width, 1, frozen=True)
        return width**2 / compute_product(one, machine).forward

    # an A100's large products are limited by power, its small tiles are not: 0.56 x 0.848 / 0.737
    for gpu, part in (("RTX-4090-24GB", 0.56), ("A100-SXM4-80GB", 0.64), ("H100-SXM5-80GB", 1.0)):
        assert rate(8200, gpu) / rate(8192, gpu) == pytest.approx(part, rel=0.1), gpu
        assert rate(8208, gpu) / rate(8192, gpu) == pytest.approx(1.0, rel=0.1), gpu


def test_a_vocabulary_that_is_no_multiple_of_8_is_slow_unless_megatron_pads_it() -> None:
    # nanoGPT is a quarter faster with 50304 (twitter.com/karpathy/status/1621578354024677377)
    def compute(framework: str, gpu: str, vocab: int, divisor: int = 128) -> float:
        shape = Architecture("gpt2", 12, 768, 12, 12, 64, 3072, vocab, gated=False, tied=True)
        asked = setup(
            model=build_model(shape),
            seq=1024,
            micro=12,
            recipe=AUTOCAST,
            framework=framework,
            compiled=framework == "torch",
            vocab_divisor=divisor,
        )
        return compute_step(asked, build_machine(gpus()[gpu], 8, 25e9, "infiniband")).compute

    def slower(framework: str, gpu: str = "A100-SXM4-40GB", divisor: int = 128) -> float:
        return compute(framework, gpu, 50257, divisor) / compute(framework, gpu, 50304)

    assert 1.2 < slower("torch") < 1.4
    assert slower("megatron") == pytest.approx(1.0, abs=0.001)
    assert slower("megatron", divisor=1) > 1.1
    assert slower("torch", "MI300X-192GB") == pytest.approx(1.0, abs=0.02)


def test_biases_of_experts_are_no_products() -> None:
    experts = Experts(8, 2, 512)
    shape = Architecture("moe", 4, 512, 4, 4, 128, 512, 1024, experts=experts)
    biased = shape._replace(experts=experts._replace(bias=True))
    with_bias, without = (
        compute_layer(setup(model=build_model(each), micro=1), A100) for each in (biased, shape)
    )
    assert with_bias.products == without.products


@pytest.mark.parametrize(
    ("gpu", "tflops"),
    [
        ("A100-SXM4-80GB", 230),
        ("RTX-A6000-48GB", 95),
        ("RTX-4090-24GB", 163),
        ("L40S-48GB", 269),
        ("L4-24GB", 59),
        ("A40-48GB", 111),
        ("H20-SXM5-96GB", 142),
        ("H200-SXM5-141GB", 645),
        ("MI300X-192GB", 599),
        ("V100-SXM2-32GB", 96),
        ("TITAN-RTX-24GB", 54),
        ("RTX-2080-Ti-11GB", 50),
    ],
)
def test_the_rate_is_that_of_the_gpu_not_only_of_its_architecture(gpu: str, tflops: int) -> None:
    machine = build_machine(gpus()[gpu], 8, 25e9, "infiniband")
    assert round(get_matmul_rate(machine) / 1e12) == tflops


@pytest.mark.parametrize(
    ("gpu", "tflops"),
    [("V100-SXM2-16GB", 14.3), ("TITAN-RTX-24GB", 10.8), ("RTX-2080-Ti-11GB", 11.5)],
)
def test_fp32_runs_at_the_rate_that_was_measured(gpu: str, tflops: float) -> None:
    machine = build_machine(gpus()[gpu], 8, 25e9, "infiniband")
    assert get_vector_rate(machine) / 1e12 == pytest.approx(tflops, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "part"), [("H20-SXM5-96GB", 0.958), ("H200-SXM5-141GB", 0.652), ("MI300X-192GB", 0.443)]
)
def test_a_gpu_of_its_own_rate_has_it_in_8_bits_too(gpu: str, part: float) -> None:
    machine = build_machine(gpus()[gpu], 8, 25e9, "infiniband")
    assert get_matmul_rate(machine, bits=8) == pytest.approx(part * machine.fast8)


@pytest.mark.parametrize(
    ("gpu", "bits", "tflops"),
    [
        # deepseek-ai/DeepGEMM, pull request 348: cuBLASLt, with matrices of 8192
        ("B200-SXM-180GB", 4, 5239),
        # TransformerEngine, docs/examples/gemm_profiling/gemm_profiling.rst
        ("B300-SXM-288GB", 4, 5094),
        ("B300-SXM-288GB", 8, 2815),
        ("B300-SXM-288GB", 16, 1463),
    ],
)
def test_narrow_products_reach_what_was_measured(gpu: str, bits: int, tflops: float) -> None:
    machine = build_machine(gpus()[gpu], 8, 50e9, "infiniband")
    assert get_matmul_rate(machine, bits=bits) / 1e12 == pytest.approx(tflops, rel=0.1)


def test_a_gpu_without_narrow_types_multiplies_in_16_bits() -> None:
    older = build_machine(gpus()["A100-SXM4-80GB"], 8, 50e9, "infiniband")
    assert get_matmul_rate(older, bits=4) == get_matmul_rate(older)


def test_quantizing_to_4_bits_takes_most_of_what_it_saves_on_small_products() -> None:
    # 15,872 tokens on a B300: 0.256 ms with 4096 x 4096 where MXFP8 takes 0.269, and 0.635 with
    # 4096 x 16384 where it takes 0.924 (TransformerEngine, gemm_profiling.rst)
    machine = build_machine(gpus()["B300-SXM-288GB"], 8, 50e9, "infiniband")
    base = setup(seq=15872, micro=1, framework="megatron")

    def time(outer: int, name: str) -> float:
        one = base._replace(recipe=MIXED._replace(name=name))
        product = build_product(one, 4096, outer, narrow=True, frozen=False)
        return compute_product(product, machine).forward

    small, large = (time(width, "fp4") / time(width, "fp8") for width in (4096, 16384))
    assert large == pytest.approx(0.635 / 0.924, rel=0.1)
    assert large < small < 1


@pytest.mark.parametrize(
    ("gpu", "reached"),
    [
        ("A100-SXM4-80GB", 1.70),
        ("A800-SXM4-80GB", 1.70),
        ("H100-SXM5-80GB", 2.97),
        ("H200-SXM5-141GB", 4.15),
        ("MI300X-192GB", 4.08),
    ],
)
def test_what_kernels_reach_of_its_memory_is_measured_on_the_gpu(gpu: str, reached: float) -> None:
    machine = build_machine(gpus()[gpu], 8, 25e9, "infiniband")
    assert get_memory_rate(machine) / 1e12 == pytest.approx(reached, abs=0.005)


def test_a_gpu_that_power_limits_loses_nothing_to_a_last_wave_that_is_nearly_full() -> None:
    machine = build_machine(gpus()["H100-SXM5-80GB"], 8, 25e9, "infiniband")
    assert get_matmul_rate(machine, filled=0.9) == get_matmul_rate(machine)
    assert get_matmul_rate(machine, filled=0.5) < get_matmul_rate(machine)


def test_megatron_adds_each_gradient_to_those_before_but_its_fsdp_does_not() -> None:
    def time(framework: str, strategy: str) -> float:
        recipe = MIXED._replace(grads=4)
        asked = setup(strategy, seq=8, micro=1, framework=framework, recipe=recipe)
        return compute_products(asked, A100, asked.model.layers[0].tensors).backward

    weights = sum(
        tensor.count for tensor in setup().model.layers[0].tensors if len(tensor.shape) > 1
    )
    more = time("megatron", "zero1") - time("torch", "zero1")
    assert more == pytest.approx(4 * weights / get_memory_rate(A100))
    assert time("megatron", "fsdp2") == time("torch", "fsdp2")


def test_whole_experts_have_as_many_weights_on_a_rank_as_divided_ones() -> None:
    model = build_model(
        Architecture("sparse", 4, 4096, 32, 8, 128, 8192, 32000, experts=Experts(8, 2, 8192))
    )
    halves, whole = (
        compute_layer(setup("fsdp2", model=model, seq=8192, mesh=mesh), A100).products
        for mesh in (Mesh(1, 4, tp=2, ep=4), Mesh(1, 4, tp=2, ep=8, etp=1))
    )
    assert whole == pytest.approx(halves, rel=0.1)
    fewer = setup("fsdp2", model=model, seq=8, mesh=Mesh(1, 4, tp=2, ep=4, etp=1))
    more = fewer._replace(mesh=Mesh(1, 4, tp=2, ep=4))
    assert compute_layer(fewer, A100).products > compute_layer(more, A100).products


def test_a_rotation_in_fp32_is_cast_around_its_kernel() -> None:
    one = setup(model=build_model(Architecture("turned", 4, 4096, 32, 8, 128, 14336, 32000)))
    one = one._replace(fused_norms=True)
    wide, tensors = one._replace(wide_rotation=True), one.model.layers[0].tensors
    # 2 + 4 bytes to cast, 4 + 4 to rotate and 4 + 2 to cast back instead of 2 + 2
    added = count_elementwise(wide, tensors) - count_elementwise(one, tensors)
    assert added == pytest.approx(16 * one.tokens * (32 + 8) * 128)
    assert count_kernels(wide, tensors) - count_kernels(one, tensors) == 4


def test_a_divided_sequence_is_gathered_and_reduced_twice_but_for_experts() -> None:
    def more(experts: Experts | None) -> int:
        shape = Architecture("llama", 4, 512, 4, 4, 128, 512, 1024, experts=experts)
        one = setup("3d", model=build_model(shape), mesh=Mesh(1, 1, tp=2), framework="megatron")
        tensors = one.model.layers[0].tensors
        divided = one._replace(sequence_parallel=True)
        return count_kernels(divided, tensors) - count_kernels(one, tensors)

    assert more(None) == 2 * 5  # kernels that a collective takes the time of
    assert more(Experts(8, 2, 512)) == 0


@pytest.mark.parametrize(
    ("strategy", "compiled", "more"),
    [
        # an RMSNorm has 28 bytes instead of 36; a sum 10 instead of 6; five products cast
        ("ddp", False, 2 * (28 - 36) + 2 * (10 - 6) + 5 * 6),
        # compiled, a norm reads 4 and writes 2 instead of 2 and 2, and casts nothing apart
        ("ddp", True, 2 * 2 + 2 * (8 - 4)),
        # FSDP casts parameters, and the embedding's with them
        ("fsdp", False, 0),
    ],
)
def test_autocast_leaves_the_stream_in_fp32(strategy: str, *, compiled: bool, more: int) -> None:
    model = build_model(Architecture("llama", 4, 4096, 32, 8, 128, 14336, 32000))
    narrow = setup(strategy, model=model, recipe=MIXED, compiled=compiled)
    wide = narrow._replace(recipe=AUTOCAST)
    tensors = model.layers[0].tensors
    added = count_elementwise(wide, tensors) - count_elementwise(narrow, tensors)
    assert added == narrow.tokens * 4096 * more
