"""Which kernel ``scaled_dot_product_attention`` takes."""

from __future__ import annotations

from typing import Any
from unittest import mock

_DROPOUT = 4
"""Its place among the arguments."""


class AttentionKernel:
    """With dropout, torch's attention on a CPU multiplies matrix by matrix and keeps all scores; on
    a GPU its kernels need none of them (aten/src/ATen/native/transformers/attention.cpp,
    ``_fused_sdp_choice_cpp``)."""

    def __init__(self, torch: Any) -> None:
        self._functional = torch.nn.functional
        self._attend = self._functional.scaled_dot_product_attention
        self.keeps_scores = False
        """Whether a call had dropout."""
        self.flash = False
        """Whether calls are made without dropout, so that no scores are kept."""

    def watch(self) -> Any:
        """While this is entered, calls are noted, and made without dropout where ``flash`` is set.
        A mode of functions would not see those of ``torch.nn``'s own layers."""
        return mock.patch.object(self._functional, self._attend.__name__, self._call)

    def _call(self, *args: Any, **words: Any) -> Any:
        rate = args[_DROPOUT] if len(args) > _DROPOUT else words.get("dropout_p", 0.0)
        self.keeps_scores = self.keeps_scores or rate > 0
        if self.flash and len(args) > _DROPOUT:
            args = (*args[:_DROPOUT], 0.0, *args[_DROPOUT + 1 :])
        elif self.flash:
            words["dropout_p"] = 0.0
        return self._attend(*args, **words)
