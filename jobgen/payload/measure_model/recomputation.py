"""Which operations of a backward pass compute a part of the forward pass again."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import mock


class Recomputation:
    """Follows what checkpointing of the program's own runs again, by whatever library: the engine
    runs gradients without gradients of their own, and checkpointing a forward pass with them."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._functions = 0

    @property
    def is_running(self) -> bool:
        """Whether an operation of the backward pass is of a forward pass."""
        return self._functions > 0 or bool(self._torch.is_grad_enabled())

    @contextlib.contextmanager
    def watch(self) -> Any:
        """In it, forward passes of the program's own functions, too, which torch runs without
        gradients."""
        function = self._torch.autograd.Function
        original = function.apply.__func__

        def apply(cls: Any, *args: Any, **words: Any) -> Any:
            inside = self.is_running
            self._functions += inside
            try:
                return original(cls, *args, **words)
            finally:
                self._functions -= inside

        with mock.patch.object(function, "apply", classmethod(apply)):
            yield
