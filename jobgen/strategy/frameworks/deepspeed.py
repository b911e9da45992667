"""Programs that call deepspeed.initialize: a ds_config.json, whole and without ``auto``.

The program reads its path from ``$JOBGEN_DEEPSPEED_CONFIG``. A strategy.json beside it says what
has no place there: the length of a sequence, the layers to be recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.model.decision import Setting
from jobgen.strategy import dsconfig
from jobgen.strategy.frameworks import Configured, FrameworkRequest, torch
from jobgen.strategy.spec import Note

_NAME = "JOBGEN_DEEPSPEED_CONFIG"
_OFFLOAD = ("train", "offload")


def configure(request: FrameworkRequest) -> Configured:
    """``ds_config.json``, and the variable that names it."""
    found = dsconfig.build_config(request, "deepspeed")
    beside = torch.configure(request)
    place = f"$JOBGEN_BUNDLE_DIR/{dsconfig.FILE}"
    why = "DeepSpeed configuration"
    return Configured(
        files=(dsconfig.build_file(found), *beside.files),
        env={_NAME: Setting(place, why, request.place), **beside.env, **_timeout(request)},
        chosen=dsconfig.explain_choices(found),
        notes=tuple(_notes(request)),
        faults=found.faults,
    )


def _timeout(request: FrameworkRequest) -> dict[str, Setting]:
    """Whole minutes: DeepSpeed 0.19, constants.py, ``default_pg_timeout``."""
    timeout = request.strategy.timeout
    if timeout is None:
        return {}
    why = "timeout of the process groups in minutes, read by deepspeed.init_distributed"
    return {"DEEPSPEED_TIMEOUT": Setting(str(-(-timeout // 60)), why, request.place)}


def _notes(request: FrameworkRequest) -> Iterator[Note]:
    strategy = request.strategy
    if strategy.recompute != "none":
        yield Note(
            "activation_checkpointing in ds_config.json only configures "
            "deepspeed.checkpointing: the program itself must call "
            "deepspeed.checkpointing.checkpoint around its layers",
            ("train", "activation_checkpointing"),
        )
    if strategy.offload.optimizer and strategy.config is None:
        yield Note(
            "the optimizer step runs on the CPU: use deepspeed.ops.adam.DeepSpeedCPUAdam, "
            "which is several times faster there than torch's; it needs a C++ compiler on "
            "the node",
            _OFFLOAD,
        )
    if strategy.offload.to == "nvme" and strategy.offload:
        yield Note(
            "offloading to NVMe builds DeepSpeed's async_io on the node: install libaio's "
            "headers (libaio-dev, libaio-devel) and a C++ compiler",
            _OFFLOAD,
        )
    if strategy.offload.to == "nvme" and strategy.offload.optimizer:
        yield Note(
            "DeepSpeed 0.19 resumes from a checkpoint without the moments of an optimizer "
            "on NVMe, and prints no warning: see docs/howto/train.md for what to do before "
            "load_checkpoint",
            _OFFLOAD,
        )
