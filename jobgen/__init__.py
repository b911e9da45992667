"""From one job.yaml to a followed multi-node GPU job on a Slurm cluster."""

__version__ = "0.1.0"
