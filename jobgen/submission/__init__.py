"""Exactly-once submission as a pure state machine, and the scripts that carry it out.

A batch system takes no idempotency key, so "accepted once" cannot be had from outside. What can
be had, and is: the program executes under at most one job id; if any attempt is accepted, its id
is found; further accepted copies do nothing and are cancelled. Three things make it so:

- attempt K is a symbolic link in the run directory, so sbatch runs at most once for each K;
- the job claims the run directory by another, so at most one accepted copy executes;
- an answer that is not a definite yes or no is looked into, never repeated blindly.
"""
