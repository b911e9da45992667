"""What hardware reaches of what its datasheet says. Every number with its public origin."""

from __future__ import annotations

from jobgen.strategy.estimate import ClusterHardware

MATMUL = {
    "Ampere": 0.869,
    "Hopper": 0.803,
    "Blackwell": 0.776,
    "CDNA3": 0.514,
    "Ada": 0.962,
}
"""The best that 16-bit matrix products reach of the peak, over all shapes: the table of maximum
achievable matmul FLOPS in stas00/ml-engineering, compute/accelerator/README.md (A100 SXM 271.2 of
312, H100 SXM 794.5 of 989, B200 1745 of 2250, MI300X 668 of 1300 TFLOP/s). Ada:
cuBLAS on an L20, up to 115 of 119.5 TFLOP/s (xlite-dev/LeetCUDA, kernels/hgemm/README.md)."""
MATMUL_8 = {"Hopper": 0.709, "Blackwell": 0.763}
"""The same for 8-bit types, the second table there (H100 SXM 1402.6 of 1979, B200 3432 of 4500)."""
OTHERS = 0.8
"""Where nobody has published it: the middle of that table."""
TYPICAL = 0.85
"""What one family of shapes reaches of the best shape: "around 80-90%", the same repository,
compute/accelerator/benchmarks/README.md."""
SUSTAINED = {"Hopper": 0.6}
"""What sample large inputs reach of the peak, where that is known to be less: power, not tensor
cores, limits a H100 that multiplies for longer than a benchmark. pytorch/ao, the first
benchmarks/float8/float8_roofline.py (H100_PCT_ACHIEVABLE_GEMM_TOPS)."""
FLASH = {"Hopper": 0.35, "Blackwell": 0.35}
"""FlashAttention-2 reaches 35 % of a H100 (abstract of FlashAttention-3, arXiv 2407.08608)."""
FLASH_OTHERS = 0.6
"""And 50 to 73 % of an A100 (abstract of FlashAttention-2, arXiv 2307.08691)."""
FIRST_FLASH = 0.325 / 0.6
"""What the first FlashAttention reaches of it: 25 to 40 % of an A100, the same abstract."""
FUSED_FLASH = {"Hopper": 0.55}
"""Megatron's attention is cuDNN's, near FlashAttention-3, which reaches up to 75 % of a H100
forward and FlashAttention-2's 35 % at the least: the middle."""
OLD = ("mosaic",)
"""Frameworks of published runs that had the first FlashAttention: llm-foundry's Triton one."""
CONTENTION = 0.189
"""By how much computing slows down while something is sent beside it, on the average of A100, H100
and MI250: abstract of arXiv 2507.03114."""
SLOWEST = 1.04
"""All wait for the slowest GPU, and GPUs alike differ by 8 % on the average of five large systems
(abstract of arXiv 2208.11035): half of that above the middle."""
VECTOR = {"Volta": 8, "Turing": 8, "Ada": 4, "Blackwell": 28}
"""How many times faster tensor cores are in 16 bits than the ordinary ones in fp32 (datasheets)."""
VECTOR_OTHERS = 16
GRAPHICS = {"RTX": 2, "L4": 4, "A10-": 4, "A10G": 2, "A16": 4, "A40": 4}
"""The same by the beginning of a name: cards for graphics have many more of the ordinary ones."""
MEMORY = 0.92
"""Of the bandwidth of GPU memory that a kernel reaches which only reads and writes:
torchao/testing/training/roofline_utils.py."""
LINK = {"nvlink": 0.8, "pcie": 0.88}
"""Of a link in one direction: 78 % on A100, 80 to 82 % on H200 for all-gather and reduce-scatter;
PCIe 5.0 x16 55 of 63 GB/s (stas00/ml-engineering, network/README.md)."""
NETWORK = 0.73
"""Of the line rate of the network cards, at 4 GiB over 4 nodes: the same page."""
FP32 = 4
"""Bytes."""
HOST_CALL = 21e-6
"""Seconds in which Python starts one kernel in eager mode, forward and backward on the average.
Llama 3.2 1B at 512 tokens, which waits for it alone, took 48.8 ms forward, again and backward
(stas00/ml-engineering, training/performance/README.md, torch 2.13): 16 layers of 36 kernels, four
times, as backward starts two for each."""
COMPILED_CALL = 14e-6
"""The same where torch.compile joined what lies between products: 12.6 ms, 14 kernels a layer."""
CPU_ADAM = 0.257e-9
"""Seconds for a parameter of DeepSpeed's CPU Adam on a node, and of PyTorch's: Table 4 of
ZeRO-Offload (arXiv 2101.06840), 2.57 s and 14.76 s for ten billion."""
CPU_ADAM_TORCH = 1.476e-9


def get_matmul_rate(machine: ClusterHardware, *, narrow: bool = False) -> float:
    """FLOP/s of a large matrix product, in 8-bit types where ``narrow``."""
    if narrow and machine.fast8:
        return machine.fast8 * TYPICAL * MATMUL_8.get(machine.architecture, 0.71)
    known = SUSTAINED.get(machine.architecture)
    return machine.peak * (known or TYPICAL * MATMUL.get(machine.architecture, OTHERS))


def get_attention_rate(machine: ClusterHardware, framework: str) -> float:
    """FLOP/s of attention that keeps no matrix of scores: at most those of a matrix product."""
    part = FLASH.get(machine.architecture, FLASH_OTHERS)
    if framework in OLD:
        part *= FIRST_FLASH
    elif framework == "megatron":
        part = FUSED_FLASH.get(machine.architecture, part)
    return min(machine.peak * part, get_matmul_rate(machine))


def get_vector_rate(machine: ClusterHardware) -> float:
    """FLOP/s of a matrix product without tensor cores, as near its peak as ``get_matmul_rate``."""
    named = (times for begin, times in GRAPHICS.items() if machine.gpu.startswith(begin))
    faster = next(named, None) or VECTOR.get(machine.architecture, VECTOR_OTHERS)
    return get_matmul_rate(machine) / faster


def get_memory_rate(machine: ClusterHardware) -> float:
    """Bytes per second of a kernel that only reads and writes."""
    return machine.bandwidth * MEMORY
