"""Values of small fake tensors, for programs that read them: ``.item()``, ``if mask.any()``,
``x[mask]``."""

from __future__ import annotations

from typing import Any

from .model_units import TAKES_MEMORY, list_tensors

MOST_VALUES = 1 << 18
"""Elements of a tensor whose values are computed: token ids and masks, not images or weights."""
_COMPUTED = ("aten", "prims")
_SIZED_BY_LENGTHS = ("_ctc_loss",)
"""Operations of which integer tensors alone decide the shapes."""


class SmallValues:
    """Real tensors behind fake ones, as long as no parameter takes part."""

    def __init__(self, torch: Any, fake: Any) -> None:
        from torch._subclasses import fake_tensor
        from torch.utils.weak import WeakIdKeyDictionary

        self._torch, self._fake, self._type = torch, fake, fake_tensor.FakeTensor
        self._unknown = (
            fake_tensor.DataDependentOutputException,
            fake_tensor.DynamicOutputShapeException,
        )
        self._values: Any = WeakIdKeyDictionary()

    def lacks(self, value: Any) -> bool:
        """Whether it is a fake tensor of which only the shape is known."""
        return isinstance(value, self._type) and not self._has(value)

    def run(self, func: Any, args: Any, words: Any) -> Any:
        """The result of an operation on fake tensors, which has values if its inputs have. Raises
        what the fake one raises."""
        inputs = list_tensors(self._torch, (args, words))
        known = func.namespace in _COMPUTED and all(map(self._has, inputs))
        name = func._overloadpacket.__name__
        try:
            out = run_fake(self._torch, func, args, words)
        except self._unknown:
            lengths = [each for each in inputs if not each.is_floating_point()]
            if not known and not (name in _SIZED_BY_LENGTHS and all(map(self._has, lengths))):
                raise
            real = self._compute(func, args, words)
            trees = self._torch.utils._pytree
            out = trees.tree_map_only(self._torch.Tensor, self._fake.from_tensor, real)
            if known:
                self._note(out, real)
            return out
        if not known:
            self._forget(func, args, words)
        elif self._is_small(out) and name not in TAKES_MEMORY:
            self._note(out, self._compute(func, args, words))
        return out

    def _has(self, tensor: Any) -> bool:
        real = not isinstance(tensor, self._type)
        return not tensor.requires_grad and (real or tensor in self._values)

    def _is_small(self, out: Any) -> bool:
        outputs = list_tensors(self._torch, out)
        return bool(outputs) and all(each.numel() <= MOST_VALUES for each in outputs)

    def _compute(self, func: Any, args: Any, words: Any) -> Any:
        from torch.utils._python_dispatch import _disable_current_modes

        trees = self._torch.utils._pytree
        with _disable_current_modes():
            args, words = trees.tree_map_only(self._type, self._make_real, (args, words))
            return func(*args, **words)

    def _make_real(self, tensor: Any) -> Any:
        real = self._values.get(tensor)
        return self._torch.zeros(tensor.shape, dtype=tensor.dtype) if real is None else real

    def _note(self, out: Any, real: Any) -> None:
        pairs = zip(*(list_tensors(self._torch, each) for each in (out, real)), strict=True)
        self._values.update({made: value for made, value in pairs if isinstance(made, self._type)})

    def _forget(self, func: Any, args: Any, words: Any) -> None:
        """What the operation writes has values no more, nor has what shares its storage."""
        for place, declared in enumerate(func._schema.arguments):
            if declared.alias_info is None or not declared.alias_info.is_write:
                continue
            written = args[place] if place < len(args) else words.get(declared.name)
            lost = [self._values.get(each) for each in list_tensors(self._torch, written)]
            storages = {each.untyped_storage()._cdata for each in lost if each is not None}
            for other, value in list(self._values.items()) if storages else ():
                if value.untyped_storage()._cdata in storages:
                    del self._values[other]


def make_value_mode(values: SmallValues) -> Any:
    """A mode in which every operation keeps values."""
    from torch.utils._python_dispatch import TorchDispatchMode

    base: Any = TorchDispatchMode

    class ValueMode(base):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
            return values.run(func, args, kwargs or {})

    return ValueMode()


def run_fake(torch: Any, func: Any, args: Any, words: Any) -> Any:
    """The result of an operation on fake tensors. Of a grouped product torch's takes nothing but
    bfloat16, though the real one takes every floating-point type."""
    grouped = getattr(torch.ops.aten, "_grouped_mm", None)
    if grouped is None or func is not grouped.default or args[0].dtype == torch.bfloat16:
        return func(*args, **words)
    bfloat16 = [torch.empty_like(each, dtype=torch.bfloat16) for each in args[:2]]
    product = func(*bfloat16, *args[2:], **{**words, "out_dtype": None})
    return torch.empty_like(product, dtype=args[0].dtype)
