"""Keys that a step and a group have alike, and the check of ``launcher`` of every program."""

from __future__ import annotations

from jobgen.model.container import PART_IMAGE
from jobgen.model.fields import ENVIRONMENT, check_integer
from jobgen.model.form import check_form, key
from jobgen.model.launchers import ALIASES, LAUNCHERS
from jobgen.model.settings import Launcher
from jobgen.model.train import Train

LAUNCHER = check_form(Launcher, short="type", shortly={"enum": [*LAUNCHERS, *ALIASES]})
PROCS_PER_NODE = key(
    check_integer(1, 1024), default=None, doc="Ranks per node where nodes have no GPUs."
)
RANKS_PER_GPU = key(
    check_integer(1, 64), default=None, doc="Ranks that share each GPU; default: the job's."
)
PROGRAM_LAUNCHER = key(
    LAUNCHER, default=None, doc="What starts the ranks; default: the job's launcher."
)
PROGRAM_IMAGE = key(
    PART_IMAGE,
    default=None,
    doc="Image of this program's container; default: the job's. All else is the job's.",
    example="vllm/vllm-openai:v0.11.0",
)
PROGRAM_ENVIRONMENT = key(
    ENVIRONMENT, default={}, doc="Environment of this program's ranks, beside the job's."
)
PROGRAM_TRAIN = key(check_form(Train), default=None, doc="Training setup of this program.")
