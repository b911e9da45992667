"""How long a step takes: what is computed, what is sent, and what overlaps."""

from jobgen.strategy.speed.machine_model import read_machine
from jobgen.strategy.speed.step_time import compute_step
from jobgen.strategy.speed.traffic import list_volumes

__all__ = ["compute_step", "list_volumes", "read_machine"]
