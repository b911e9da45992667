"""Segments of a step: what comes before the units, each unit, and what comes after the last.

A stage of a pipeline holds some of them in a row. That needs units that run one after another, each
on nothing but what the one before it returns.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from .model_units import hold, list_tensors

_UNORDERED = "its layers do not run one after another, each once"


class UnitChain:
    """Watches the units of a model in one step, and calls when a segment begins."""

    def __init__(self, torch: Any, model: Any, units: list[tuple[str, Any]]) -> None:
        from torch.utils.weak import WeakIdKeyDictionary

        self._torch, self._units = torch, units
        self.broken = "" if units else "it has no list of layers"
        """Why no pipeline can be made of these units; empty if one can."""
        self.segment = 0
        self.sent = [[0, 0] for _ in range(self.count)]
        """Bytes that each segment passes on, and those that nothing keeps for the backward pass."""
        self._returned: list[list[weakref.ref[Any]]] = [[] for _ in range(self.count)]
        self._forward, self._passed = True, WeakIdKeyDictionary()
        self._made: Any = WeakIdKeyDictionary()
        """Storage of a result → the segment that computed it."""
        self._parameters = {each.untyped_storage()._cdata: each for each in model.parameters()}
        self._used: list[dict[int, Any]] = [{} for _ in range(self.count)]
        self._handles: list[Any] = []
        self._call: Callable[[int], object] = lambda _: None

    @property
    def count(self) -> int:
        """Segments."""
        return len(self._units) + 2 if self._units else 1

    def watch(self, call: Callable[[int], object]) -> None:
        """Call with the number of each segment that begins, either way."""
        self._call = call
        for number, (_, unit) in enumerate(self._units):
            enter, leave = self._enter(number), self._leave(number)
            self._handles.append(unit.register_forward_pre_hook(enter, with_kwargs=True))
            self._handles.append(unit.register_forward_hook(leave))

    def begin(self, segment: int) -> None:
        """From now on this segment computes."""
        self.segment = segment
        self._call(segment)

    def see(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Note which parameters an operation of the forward pass uses, and whether it takes what
        another segment has computed, beside what that has passed on."""
        if not self._forward:
            return
        for each in inputs:
            storage = each.untyped_storage()
            parameter = self._parameters.get(storage._cdata)
            if parameter is not None:
                self._used[self.segment][id(parameter)] = parameter
            elif (
                each.requires_grad
                and storage not in self._passed
                and self._made.get(storage, self.segment) != self.segment
            ):
                self._break("a layer takes more than the one before it returns")
        for each in outputs:
            self._made.setdefault(each.untyped_storage(), self.segment)

    def end_forward(self) -> None:
        """The backward pass begins: what is computed again begins no segment."""
        self._forward = False
        for handle in self._handles:
            handle.remove()
        for sent, returned in zip(self.sent, self._returned, strict=True):
            alive = (each() for each in returned)
            sent[1] = sent[0] - sum(each.nbytes() for each in alive if each is not None)
        if self.segment != self.count - 1:
            self._break(_UNORDERED)

    def _break(self, why: str) -> None:
        self.broken = self.broken or why

    def count_parameters(self) -> list[list[int]]:
        """Of each segment: elements, those that are trained, and bytes of those that are frozen."""
        rows = []
        for used in self._used:
            trained = [each for each in used.values() if each.requires_grad]
            frozen = [each for each in used.values() if not each.requires_grad]
            count = sum(each.numel() for each in trained)
            rows.append([count + sum(each.numel() for each in frozen), count, hold(frozen)])
        return rows

    def _enter(self, number: int) -> Any:
        def enter(_: Any, args: Any, words: Any) -> None:
            if self.segment != number:
                self._break(_UNORDERED)
            if number == 0:
                self._pass_on(0, (args, words))
            self.begin(number + 1)

        return enter

    def _leave(self, number: int) -> Any:
        def leave(_: Any, __: Any, output: Any) -> None:
            self._pass_on(number + 1, output)
            if number + 1 == len(self._units):
                self.begin(number + 2)

        return leave

    def _pass_on(self, segment: int, value: Any) -> None:
        """What a segment returns; the segment goes backward when the gradient of that comes."""
        tensors = list_tensors(self._torch, value)
        self.sent[segment] = [hold(tensors), 0]
        storages = {each.untyped_storage()._cdata: each.untyped_storage() for each in tensors}
        self._returned[segment] = [weakref.ref(each) for each in storages.values()]
        self._passed.clear()
        self._passed.update(dict.fromkeys(storages.values(), True))
        learned = [each for each in tensors if each.requires_grad]
        if learned:
            learned[0].register_hook(lambda _: self.begin(segment))
