"""What tests do not take from whoever runs them: variables of Slurm, of a hook, of a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping

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
    """Drop these variables, and take the usual umask."""
    for name in [name for name in environ if _FOREIGN.fullmatch(name)]:
        del environ[name]
    os.umask(0o022)
