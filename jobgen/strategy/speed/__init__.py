"""How long a step takes: what is computed, what is sent, and what overlaps."""

from jobgen.strategy.speed.machine_model import machine
from jobgen.strategy.speed.step_time import step
from jobgen.strategy.speed.traffic import volumes

__all__ = ["machine", "step", "volumes"]
