"""What one GPU holds at one moment."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple
from jobgen.strategy.estimate import Moment


class Parts(NamedTuple):
    """Bytes on one GPU at one moment: each part is what torch has allocated for it."""

    moment: Moment
    params: float
    grads: float
    master: float
    moments: float
    gathered: float
    buckets: float
    activations: float
    logits: float
    temporary: float
    idle: float = 0.0
    """What is freed, and stays reserved in the pool of a stream that nothing else takes from."""

    @property
    def total(self) -> float:
        """What torch keeps reserved for tensors."""
        return self.allocated + self.idle

    @property
    def allocated(self) -> float:
        """What torch has allocated."""
        return sum(self[1:-1])
