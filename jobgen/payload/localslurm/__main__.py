"""``python localslurm --state DIR sbatch|squeue|scancel|scontrol|srun|supervise …``."""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a folder: let the modules find each other under their own name
    here = Path(__file__).resolve().parent
    sys.path[:] = [p for p in sys.path if Path(p) != here] + [str(here.parent)]
    __package__ = here.name

from .programs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
