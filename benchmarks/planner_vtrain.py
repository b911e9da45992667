"""Times of steps on one node that vTrain was validated with (arXiv:2312.12391), as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner_rows import Row

from jobgen.data import gpus
from jobgen.strategy.estimate import MIB, ClusterHardware
from jobgen.strategy.memory.recipes import get_recipe
from jobgen.strategy.setup import Setup
from jobgen.strategy.shapes.architecture import Architecture
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.spec import Batch, Mesh

_TIME = "iteration time (ms)"
_SOURCE = "https://github.com/VIA-Research/vTrain (one node of eight A100)"


def is_vtrain(names: Iterable[str]) -> bool:
    """Whether a file with these columns is vTrain's table."""
    return _TIME in names


def read_vtrain(lines: Iterable[Mapping[str, str]]) -> list[Row]:
    """Its rows. vTrain's config/validation/single says what the table does not: A100, activation
    checkpointing, no gradient buckets, and 800 Gb/s between nodes, as those with 80 GB have. Its
    src/model says what a layer is: Megatron's, with scores of attention in memory."""
    gpu = gpus()["A100-SXM4-80GB"]
    machine = ClusterHardware(
        gpu=gpu.name,
        memory=gpu.memory_mib * MIB,
        peak=gpu.bf16_tflops * 1e12,
        bandwidth=gpu.memory_gbs * 1e9,
        link=300e9,
        network=12.5e9,
        fabric="infiniband",
    )
    return [_read_row(f"v{number:04}", line, machine) for number, line in enumerate(lines, 1)]


def _read_row(name: str, line: Mapping[str, str], machine: ClusterHardware) -> Row:
    def read(column: str) -> int:
        return int(line[column])

    data, tp, pp = (read(f"{axis} parallelism") for axis in ("data", "tensor", "pipeline"))
    micro = read("micro batch")
    shape = Architecture(
        name="GPT",
        layers=read("# layers"),
        hidden=read("hidden size"),
        heads=read("attention heads"),
        kv_heads=read("attention heads"),
        head_dim=read("hidden size") // read("attention heads"),
        ffn=4 * read("hidden size"),
        vocab=50257,
        gated=False,
        tied=True,
        positions=read("sequence length"),
        layer_norm=True,
        qkv_bias=True,
        out_bias=True,
        mlp_bias=True,
        rotary="",
    )
    setup = Setup(
        model=build_model(shape),
        strategy="3d",
        mesh=Mesh(data, 1, tp, pp),
        batch=Batch(micro, read("global batch") // data // micro, data),
        seq=read("sequence length"),
        recipe=get_recipe("mixed"),
        recompute="full",
        framework="megatron",
        flash=False,
        persistent_grads=True,
        overlap_reduce=False,
    )
    return Row(
        id=name,
        tier="C",
        source=_SOURCE,
        setup=setup,
        machine=machine,
        metric="nvidia-smi",
        gib=None,
        step=float(line[_TIME]) / 1000,
        mfu=None,
        fits=True,
        interconnect=True,
    )
