"""Programs that call deepspeed.initialize: a ds_config.json, whole and without ``auto``.

The program reads its path from ``$JOBGEN_DEEPSPEED_CONFIG``. A strategy.json beside it says what
has no place there: the length of a sequence, the layers to be recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.model.plan import Setting
from jobgen.strategy import dsconfig
from jobgen.strategy.frameworks import Configured, FrameworkRequest, program_options, torch
from jobgen.strategy.spec import Note

_NAME = "JOBGEN_DEEPSPEED_CONFIG"
_OFFLOAD = ("train", "offload")


def configure(request: FrameworkRequest) -> Configured:
    """``ds_config.json``, and the variable that names it."""
    found = dsconfig.build_config(request, "deepspeed")
    beside = torch.configure(request)
    place = f"$JOBGEN_BUNDLE_DIR/{dsconfig.FILE}"
    why = "DeepSpeed's configuration of the strategy"
    return Configured(
        files=(dsconfig.build_file(found), *beside.files),
        env={_NAME: Setting(place, why, request.place), **beside.env},
        chosen=dsconfig.explain_choices(found),
        notes=tuple(_notes(request)),
        faults=(*found.faults, *program_options.check_ddp(request.strategy, "DeepSpeed")),
    )


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy = request.strategy
    if strategy.recompute != "none":
        yield Note(
            "activation_checkpointing in ds_config.json only configures deepspeed.checkpointing: "
            "the program itself has to call deepspeed.checkpointing.checkpoint around its layers",
            ("train", "activation_checkpointing"),
        )
    if strategy.offload.optimizer and strategy.config is None:
        yield Note(
            "the optimizer's step runs on the CPU: deepspeed.ops.adam.DeepSpeedCPUAdam is several "
            "times as fast there as torch's, and needs a C++ compiler on the node",
            _OFFLOAD,
        )
    if strategy.offload.to == "nvme" and strategy.offload:
        yield Note(
            "offload to NVMe builds DeepSpeed's async_io on the node: libaio's headers "
            "(libaio-dev, libaio-devel) and a C++ compiler have to be there",
            _OFFLOAD,
        )
    if strategy.offload.to == "nvme" and strategy.offload.optimizer:
        yield Note(
            "DeepSpeed 0.19 goes on from a checkpoint without the moments of an optimizer on NVMe, "
            "and does not say so: docs/howto/train.md tells what to do before load_checkpoint",
            _OFFLOAD,
        )
