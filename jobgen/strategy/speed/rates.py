"""What hardware reaches of what its datasheet says. Every number with its public origin."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.strategy.estimate import ClusterHardware

MATMUL = {
    "A100-PCIE": 0.75,
    "A40": 0.815,
    "A10G": 0.992,
    "L4-": 0.586,
    "RTX-A": 0.796,
    "RTX-3090": 1.079,
    "RTX-5090": 1.139,
    "RTX-PRO": 0.827,
    "RTX-6000-Ada": 0.743,
    "L40S": 0.743,
    "H20-": 0.958,
    "Ampere": 0.848,
    "Ada": 0.988,
    "Hopper": 0.799,
    "Blackwell": 0.754,
    "CDNA3": 0.514,
    "V100-SXM2": 0.769,
    "Volta": 0.684,
    "TITAN-RTX": 0.51,
    "RTX-2080-Ti": 1.051,
    "Turing": 0.651,
}
"""The best that square 16-bit products of 1024 to 10240 reach of the peak, by the beginning of a
GPU's name or by its architecture: zzc0721/torch-performance-test-data, database.md and issues, the
middle of what it has of each (TFLOP/s: A100 SXM 264.5 and PCIe 234.1 of 312, A40 122.3 of 150, A10G
69.5 of 70, RTX A6000 123.3 of 155, RTX 3090 76.6 of 71, RTX 4090 163.1 of 165, RTX 5090 239.1 of
210, RTX PRO 6000 413.7 of 500, L4 70.9 of 121, L40S 269.2 of 362, H20 141.9 of 148, H200 790.3 of
989, B200 1696 of 2250, V100 SXM2 96.1 of 125, V100S 88.9 of 130, TITAN RTX 66.3 of 130, RTX 2080 Ti
56.8 of 54, T4 42.3 of 65). A graphics card's clock is higher than
its datasheet's; power limits others. The RTX 6000 Ada has the L40S's chip. MI300X: 668 of 1300, the
table of maximum achievable matmul FLOPS in stas00/ml-engineering, compute/accelerator/README.md."""
MATMUL_8 = {"Hopper": 0.709, "Blackwell": 0.763, "CDNA3": 0.443}
"""The same for 8-bit types: the second table there (H100 SXM 1402.6 of 1979, B200 3432 of 4500);
MI300X 1159 of 2615 (Azure/AI-benchmarking-guide, ND_MI300X_v5_results.md). A GPU with a part of
its own in 16 bits has that in 8 bits, too: what limits it, power or not, differs from others of its
architecture more than by type (SUSTAINED)."""
FOUR_BITS = 1.9
"""How many times as fast products are in NVFP4 as in 8 bits. The twelve of a layer with 15,872
tokens, already quantized, took 3.764 ms on a B300, 7.161 in MXFP8 and 6.812 in FP8 (NVIDIA/
TransformerEngine, docs/examples/gemm_profiling/gemm_profiling.rst): 5094 TFLOP/s. With matrices of
8192, a B200 has 5239 (deepseek-ai/DeepGEMM, pull request 348, cuBLASLt), where this and
``SUSTAINED`` make it 4916."""
UNEVEN = {"Ampere": 0.56, "Ada": 0.56}
"""What is left of it where a width in 16 bits is an odd multiple of 8: cuBLAS then takes a kernel
of small tiles (cutlass_80, 64x64, align8), 89.6 TFLOP/s at 2056 and 83.6 at 2072, where 2040 has
155.9 (pytorch/pytorch, issue 181718, on an RTX 4090, which has the kernels of A100)."""
UNALIGNED = 1 / 3
"""What is left of it on a GPU of NVIDIA where a width in 16 bits is no multiple of 8: a vocabulary
of such a size tripled the time of its layer (Netflix, Scaling LLM Post-Training, February 2026).
Karpathy had nanoGPT a quarter faster with 50304 entries instead of 50257."""
OTHERS = 0.8
"""Where nobody has published it: the middle of those."""
SUSTAINED = {
    "A100-PCIE": 0.69,
    "A100": 0.737,
    "A800": 0.737,
    "RTX-A": 0.613,
    "A40": 0.738,
    "L4-": 0.491,
    "TITAN-RTX": 0.414,
    "RTX-2080-Ti": 0.919,
    "H100-PCIE": 0.573,
    "H20-": 1.0,
    "Hopper": 0.652,
    "GB200": 0.575,
    "B200": 0.575,
    "B300": 0.626,
    "CDNA3": 0.458,
}
"""What products that take longer than a benchmark's reach of the peak, where that is known to be
less: power, not tensor cores, limits them. With matrices of 8192, A100 230 of 312 and RTX A6000 95
of 155 TFLOP/s (mli/transformers-benchmarks, README.md), A100 PCIe 215 of 312, A40 110.6 of 150 and
L4 59.4 of 121, TITAN RTX 53.9 of 130 and RTX 2080 Ti 49.6 of 54
(zzc0721/torch-performance-test-data, issues 108, 185, 120, 127 and 181); H100 PCIe 433 of 756
(pytorch/ao, pull request 3342); in 8 bits, after 10,000 such products of random values, H100 1290
of 1979 and GB200 2877 of 5000 (Azure/AI-benchmarking-guide, ND_H100_v5_results.md and
ND_GB200_v6_results.md), taken for 16 bits as well: pytorch/ao saw one part for both, 60 % on H100
of 500 W instead of 700 W (H100_PCT_ACHIEVABLE_GEMM_TOPS in the first
benchmarks/float8/float8_roofline.py). B300: 2815 of 4500 in FP8, the middle of that, 1463 of 2250
in 16 bits and 2678 in MXFP8 (the page at ``FOUR_BITS``). CDNA3: 599 of 1307 TFLOP/s, 67.43 % of
the profile at ``FLASH`` (attention_rates.py)."""
CONTENTION = 0.189
"""By how much computing slows down while something is sent beside it, on the average of A100, H100
and MI250: abstract of arXiv 2507.03114."""
SLOWEST = 1.04
"""All wait for the slowest GPU, and GPUs alike differ by 8 % on the average of five large systems
(abstract of arXiv 2208.11035): half of that above the middle."""
VECTOR = {
    "RTX-2080-Ti": 4.3,
    "TITAN-RTX": 5,
    "V100-SXM2": 6.7,
    "RTX": 2,
    "A10-": 4,
    "A10G": 2,
    "A16": 4,
    "A40": 4,
    "L4": 4,
    "Ada": 4,
    "Volta": 8,
    "Turing": 8,
    "Blackwell": 28,
}
"""How many times faster tensor cores are in 16 bits than the ordinary ones in fp32 (datasheets):
cards for graphics have many more of the ordinary ones. Measured at 8192 where power limits both:
TITAN RTX 53.9 and 10.8 TFLOP/s, RTX 2080 Ti 49.6 and 11.5, V100 SXM2 96.1 and 14.3
(zzc0721/torch-performance-test-data, issues 127, 181, 140 and 52)."""
VECTOR_OTHERS = 16
TF32 = {"Ampere": 0.5, "Ada": 0.5, "Hopper": 0.5, "Blackwell": 0.5}
"""What tensor cores do of it in TF32, dense (datasheets): A100 156 of 312 TFLOP/s, A40 75 of 150,
L40S 183 of 362, H100 495 of 989, B200 1.1 of 2.2 PFLOP/s. Older ones have no TF32."""
MEMORY = {
    "A100-SXM4-80": 0.834,
    "A800": 0.834,
    "H100-SXM": 0.887,
    "H800": 0.887,
    "H200": 0.865,
    "CDNA3": 0.77,
}
"""Of the bandwidth of GPU memory that a kernel reaches which only reads and writes: the triad of
BabelStream in Azure/AI-benchmarking-guide (TB/s: A100 of 80 GB 1.70 of 2.039,
ND_A100_v4_results.md; H100 2.97 of 3.35 and H200 4.15 of 4.8, ND_H100_v5 and ND_H200_v5; MI300X
4.09 of 5.3). A800 and H800 have the memory of A100 and H100."""
MEMORY_OTHERS = 0.92
"""Where nobody has published it: 2.2 of 2.4 TB/s on an H100 with HBM2e
(torchao/testing/training/roofline_utils.py)."""
LINK = {"nvlink": 0.8, "pcie": 0.88}
"""Of a link in one direction: 78 % on A100, 80 to 82 % on H200 for all-gather and reduce-scatter;
PCIe 5.0 x16 55 of 63 GB/s (stas00/ml-engineering, network/README.md)."""
DISPATCH = {"Blackwell": 0.52}
"""Of NVLink in one direction, that DeepEP's and HybridEP's kernels send to other ranks. HybridEP's
benchmark has 536 and 531 GB/s on eight B200 of 900, an eighth of which stays on the rank
(deepseek-ai/DeepEP, docs/README_Hybrid-EP.md, Torch API, 16 multiprocessors)."""
DISPATCH_OTHERS = 0.66
"""DeepEP's has 337 GB/s on eight H20 of 450 (deepseek-ai/DeepEP, issue 16), and 155 on H800 of 200
(docs/legacy.md)."""
DISPATCH_ACROSS = 0.35
"""Of NVLink, while they forward what comes from other nodes: HybridEP's benchmark has 54.5 and 53.4
GB/s of the tokens for both of two nodes of eight H100 (README_Hybrid-EP.md, as above), and of every
two tokens for nodes NVLink carries 5.8 to ranks."""
NETWORK = 0.73
"""Of the line rate of the network cards, at 4 GiB over 4 nodes: the same page."""
FP32 = 4
"""Bytes."""
HOST_CALL = 21e-6
"""Seconds in which Python starts one kernel in eager mode, forward and backward on the average.
Llama 3.2 1B at 512 tokens, which waits for it alone, took 48.8 ms forward, again and backward
(stas00/ml-engineering, training/performance/README.md, torch 2.13): 16 layers of 36 kernels, four
times, as backward starts two for each."""
DISPATCHED = 36 / 47
"""Of a kernel, in this time, for each operation that torch dispatches: that Llama's layer, of 36
kernels, dispatches 47 (tests/strategy/speed/dispatched.py)."""
COMPILED_CALL = 14e-6
"""HOST_CALL where torch.compile joined what lies between products: 12.6 ms, 14 kernels a layer."""
CPU_ADAM_BYTES = 7 * FP32
"""Of the host's memory that DeepSpeed's CPU Adam passes for a parameter: four fp32 values are read,
three written (csrc/includes/cpu_adam.h). PyTorch's fused one is like it
(aten/src/ATen/native/cpu/FusedAdamKernel.cpp)."""
_GRACE = CPU_ADAM_BYTES / 0.098e-9
HOST_MEMORY_OTHERS = 42 * 6.74e9 / 4.6
_DDR5 = 307.2 / 204.8 * HOST_MEMORY_OTHERS
"""By the memory of a socket, in GB/s: eight channels of DDR5-4800 in a DGX H100 (Xeon 8480C), and
of DDR4-3200 in a DGX A100 (EPYC 7742), by Intel's and AMD's data sheets. Processors with PCIe 5.0,
which the GPUs below are made for, have no older memory."""
HOST_MEMORY = {
    **dict.fromkeys(("GH200", "GB200", "GB300"), _GRACE),
    **dict.fromkeys(("Hopper", "B200", "B300", "CDNA3", "CDNA4"), _DDR5),
}
"""Bytes per second of passes over a node's memory, of all its cores, in a step: DeepSpeed passes 42
bytes of a parameter (``host_update``) in 4.6 s for Llama-2-7B on four A100, with CPU Adam on 128
threads (deepspeedai/DeepSpeed, blogs/deepspeed-zenflow, figure 3), which is 61.5 GB/s. Its kernel
alone reaches 109 (ZeRO-Offload, arXiv 2101.06840, Table 4: 2.57 s for ten billion), and 286 on a
Grace, whose memory is one node of NUMA (blogs/deepspeed-superoffload, figure 5: 0.098 s for one
billion)."""
CPU_ADAM_TORCH = {"GH200": 0.289e-9}
CPU_ADAM_TORCH_OTHERS = 1.476e-9
"""Seconds for a parameter of PyTorch's single operations: 14.76 s for ten billion, and on a Grace
0.289 s for one, in these tables."""
ON_A_GRACE = {"GH200": 1, "GB200": 2, "GB300": 2}
"""GPUs of one Grace, whose memory no other rank's update passes (NVIDIA, datasheets)."""


def get_matmul_rate(machine: ClusterHardware, *, bits: int = 16, filled: float = 1.0) -> float:
    """FLOP/s of a matrix product of elements of up to 16 ``bits`` that fills this part of the
    multiprocessors' time."""
    peak, best = machine.peak, look_up(MATMUL, machine, OTHERS)
    if bits < 16 and machine.fast8:
        alike = look_up(MATMUL_8, machine, OTHERS)
        named = {key: part for key, part in MATMUL.items() if machine.gpu.startswith(key)}
        peak, best = machine.fast8, next(iter(named.values()), alike)
        peak *= FOUR_BITS if bits == 4 else 1.0
    return peak * min(best * filled, look_up(SUSTAINED, machine, best))


def get_uneven_share(machine: ClusterHardware) -> float:
    """Part of a product's rate that is left where a width is an odd multiple of 8."""
    return look_up(UNEVEN, machine, 1.0)


def get_unaligned_share(machine: ClusterHardware) -> float:
    """Part of a product's rate that is left where a width is no multiple of 8."""
    return 1.0 if machine.architecture.startswith("CDNA") else UNALIGNED


def get_host_memory_rate(machine: ClusterHardware) -> float:
    """Bytes per second of passes over the host's memory."""
    return look_up(HOST_MEMORY, machine, HOST_MEMORY_OTHERS)


def get_adam_seconds(machine: ClusterHardware, *, joined: bool) -> float:
    """Seconds of Adam on the host for one parameter, in one kernel or in single operations."""
    if joined:
        return CPU_ADAM_BYTES / get_host_memory_rate(machine)
    return look_up(CPU_ADAM_TORCH, machine, CPU_ADAM_TORCH_OTHERS)


def get_dispatch_share(machine: ClusterHardware, *, across: bool) -> float:
    """Part of NCCL's rate inside a node at which kernels made for it exchange tokens, ``across``
    nodes or inside one."""
    part = DISPATCH_ACROSS if across else look_up(DISPATCH, machine, DISPATCH_OTHERS)
    return part / LINK["nvlink"]


def get_vector_rate(machine: ClusterHardware) -> float:
    """FLOP/s of a matrix product without tensor cores, as near its peak as ``get_matmul_rate``."""
    return get_matmul_rate(machine) / look_up(VECTOR, machine, VECTOR_OTHERS)


def get_tf32_share(machine: ClusterHardware) -> float:
    """What is left of ``get_matmul_rate`` for fp32 products as TF32, or without tensor cores."""
    without = 1 / look_up(VECTOR, machine, VECTOR_OTHERS)
    return max(without, TF32.get(machine.architecture, without))


def look_up(table: Mapping[str, float], machine: ClusterHardware, default: float) -> float:
    """The first number whose key begins the GPU's name or is its architecture."""
    names = (machine.architecture, machine.gpu)
    return next(
        (part for key, part in table.items() if key == names[0] or names[1].startswith(key)),
        default,
    )


def get_memory_rate(machine: ClusterHardware) -> float:
    """Bytes per second of a kernel that only reads and writes."""
    return machine.bandwidth * get_memory_share(machine)


def get_memory_share(machine: ClusterHardware) -> float:
    """Part of the bandwidth in the datasheet that it is."""
    return look_up(MEMORY, machine, MEMORY_OTHERS)
