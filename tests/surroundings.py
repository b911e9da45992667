"""What tests do not take from whoever runs them: Slurm, a git hook, a terminal, nohup, a cache."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections.abc import MutableMapping

from tests.cluster.texts import FOLDER_OF_PYTHON

_OURS = "JOBGEN_REQUIRE_CLUSTER|JOBGEN_FAULTS|JOBGEN_MUTATIONS"
_FOREIGN = re.compile(
    rf"(?!(?:{_OURS})$)"
    r"(?:(?:SLURM|SLURMD|SBATCH|SALLOC|SRUN|SQUEUE|SINFO|SACCT|SCANCEL|SPRIO)_.*"
    r"|(?:JOBGEN|PREFLIGHT|GIT|NCCL|RCCL|PET|TORCHELASTIC|ACCELERATE|XDG)_.*"
    r"|(?:(?:LOCAL|GROUP|ROLE)_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT)"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR.*|PAGER|EDITOR|VISUAL"
    r"|BASH_ENV|ENV|CDPATH|SSH_AUTH_SOCK|SSH_ASKPASS.*)"
)


def forget(environ: MutableMapping[str, str] = os.environ) -> None:
    """Drop these variables; take the usual umask, and Ctrl-C, which nohup and & ignore."""
    for name in [name for name in environ if _FOREIGN.fullmatch(name)]:
        del environ[name]
    sys.dont_write_bytecode = False  # else each worker compiles all tests and modules anew
    os.umask(0o022)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def collect_less(environ: MutableMapping[str, str] = os.environ) -> None:
    """Have Python's collector run seldom, here and in the processes that tests start: most of them
    import torch and end, which is a third cheaper without it."""
    gc.set_threshold(100_000, 50, 50)
    folders = (str(FOLDER_OF_PYTHON), environ.get("PYTHONPATH", ""))
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    environ.pop("TORCHDYNAMO_DISABLE", None)  # a worker of pytest is such a process, and compiles
