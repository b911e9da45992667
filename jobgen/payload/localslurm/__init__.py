"""Slurm on one machine: sbatch, squeue, scancel, scontrol and srun that run job.sbatch as it is.

Run as ``python DIR --state STATE PROGRAM WORDS…``; nothing but the standard library is imported.
Several simulated nodes ``local1…localN`` are all this machine. Options, environment, states, exit
codes and messages follow Slurm 22.05.8, tried side by side. What differs, on purpose:

* a time limit is kept to the second, not rounded up to the minute;
* CPUs and memory are not counted: a node takes any job, one job at a time;
* a job that asked for no GPU sees none (``CUDA_VISIBLE_DEVICES`` is empty);
* ``--export=NONE`` keeps the submitter's PATH, because this machine is the login host and the
  node, and an activated environment is what its user means;
* a request for more nodes than there are is refused at once instead of waiting for ever;
* SLURM_* of the caller do not leak into a job that is submitted out of another job.
"""

from pathlib import Path

FOLDER = str(Path(__file__).resolve().parent)
"""What to give to Python to run it."""
