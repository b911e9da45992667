"""Fake tensors that behave as real ones where training programs rely on it.

torch's fake tensors have shapes and no values, cannot be converted by ``Module.to``, and get a
second storage when they are copied. Programs build models on the GPU, in 16 bits, from copies of a
layer, and read small tensors while they do so.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any
from unittest import mock

from .small_values import SmallValues, make_value_mode


@contextlib.contextmanager
def fake_mode() -> Any:
    """Tensors without memory, of which small ones have values until a parameter takes part."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    fake = FakeTensorMode(allow_non_fake_inputs=True)
    values, amp = SmallValues(torch, fake), torch.amp.autocast_mode.autocast
    replacements = [
        (FakeTensor, "__deepcopy__", copy_tensor),
        (torch.nn.Module, "_apply", ModuleConversion().apply),
        (torch.nn.init, "_no_grad_trunc_normal_", keep_tensor),  # draws until values fit
        (amp, "__init__", make_autocast(amp.__init__)),
    ]
    transformers = sys.modules.get("transformers.utils.import_utils")
    if hasattr(transformers, "is_fake_tensor"):  # it reads no mask that is one
        replacements.append((transformers, "is_fake_tensor", values.lacks))
    with contextlib.ExitStack() as stack:
        for owner, name, replacement in replacements:
            there = hasattr(owner, name)
            stack.enter_context(mock.patch.object(owner, name, replacement, create=not there))
        stack.enter_context(fake)
        stack.enter_context(make_value_mode(values))
        yield stack.enter_context(make_device_mode())


def copy_tensor(tensor: Any, memo: dict[int, Any]) -> Any:
    """A copy whose views share its storage, for ``copy.deepcopy``: torch's has a storage of its
    own, and MemTracker would count both."""
    import torch

    if id(tensor) not in memo:
        copied = tensor.detach().clone(memory_format=torch.preserve_format)
        wide = tensor.requires_grad
        if isinstance(tensor, torch.nn.Parameter):
            memo[id(tensor)] = torch.nn.Parameter(copied, requires_grad=wide)
        else:
            memo[id(tensor)] = copied.requires_grad_(wide)
    return memo[id(tensor)]


def keep_tensor(tensor: Any, *_: Any, **__: Any) -> Any:
    """The tensor: values of weights decide nothing."""
    return tensor


def make_autocast(original: Any) -> Any:
    """``torch.autocast`` that casts here what it casts on a GPU."""
    import torch

    def start(self: Any, device_type: str, dtype: Any = None, *args: Any, **words: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.get_autocast_dtype("cuda")
        original(self, device_type, dtype, *args, **words)

    return start


@contextlib.contextmanager
def fake_gpu() -> Any:
    """What a program calls to choose a GPU or to wait for it does nothing, and a default device
    that is a GPU is the CPU. What asks for properties of a GPU fails, as there is none."""
    import torch
    from torch.utils import _device

    context, module = _device.DeviceContext, torch.nn.Module
    with contextlib.ExitStack() as stack:
        for name, answer in _GPU_CALLS.items():
            replacement = mock.Mock(return_value=answer)
            stack.enter_context(mock.patch.object(torch.cuda, name, replacement))
        stack.enter_context(mock.patch.object(torch, "device", make_device_type(torch.device)))
        for owner, name in ((context, "__init__"), (module, "to")):
            named = make_cpu_call(getattr(owner, name))
            stack.enter_context(mock.patch.object(owner, name, named))
        stack.callback(torch.set_default_device, None)
        yield


_GPU_CALLS = {"set_device": None, "synchronize": None, "empty_cache": None, "current_device": 0}
"""Function of ``torch.cuda`` → what it returns."""


def make_device_type(device: Any) -> Any:
    """``torch.device`` for which a number alone is that of a GPU, as where there is one."""

    class DeviceType(type):
        def __call__(cls, *args: Any, **words: Any) -> Any:
            numbered = bool(args) and type(args[0]) is int
            return device("cuda", *args, **words) if numbered else device(*args, **words)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, device)

    return DeviceType("device", (), {"__module__": "torch"})


def make_cpu_call(original: Any) -> Any:
    """A method for which a GPU among its arguments is the CPU."""

    def call(self: Any, *args: Any, **words: Any) -> Any:
        named = {name: name_cpu(value) for name, value in words.items()}
        return original(self, *map(name_cpu, args), **named)

    return call


def name_cpu(value: Any) -> Any:
    """The CPU instead of a GPU, by whatever it is named; any other value as it is."""
    import torch

    if isinstance(value, torch.device):
        gpu = value.type == "cuda"
    elif isinstance(value, str):
        gpu = value.partition(":")[0] == "cuda"
    else:
        gpu = type(value) is int  # the number of a GPU
    return "cpu" if gpu else value


class ModuleConversion:
    """``Module._apply``, on which ``to``, ``half`` and ``cuda`` build: torch's swaps the contents
    of tensors, which it refuses for fake ones. Tied parameters stay tied."""

    def __init__(self) -> None:
        self._depth = 0
        self._converted: dict[int, tuple[Any, Any]] = {}

    @property
    def apply(self) -> Any:
        """The method."""

        def apply(module: Any, convert: Any, recurse: bool = True) -> Any:
            self._depth += 1
            try:
                for child in module.children() if recurse else ():
                    child._apply(convert)
                self._convert(module, convert)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._converted.clear()
            return module

        return apply

    def _convert(self, module: Any, convert: Any) -> None:
        import torch

        for name, old in list(module._parameters.items()):
            if old is None:
                continue
            if id(old) not in self._converted:
                with torch.no_grad():
                    new = convert(old)
                kept = new is old
                made = old if kept else torch.nn.Parameter(new, requires_grad=old.requires_grad)
                self._converted[id(old)] = old, made
            module._parameters[name] = self._converted[id(old)][1]
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = convert(buffer)


def make_device_mode() -> Any:
    """A mode in which a GPU that the program names is the CPU."""
    import torch
    from torch.overrides import TorchFunctionMode

    base: Any = TorchFunctionMode
    movers = torch.Tensor.cuda, torch.Tensor.cpu, torch.Tensor.pin_memory

    class OnCpu(base):  # type: ignore[misc]
        def __torch_function__(self, func: Any, _: Any, args: Any = (), words: Any = None) -> Any:
            if func in movers:
                return args[0]
            words = dict(words or {})
            words.pop("pin_memory", None)
            if "device" in words:
                words["device"] = name_cpu(words["device"])
            if func is torch.Tensor.to:
                args = tuple(map(name_cpu, args))
            return func(*args, **words)

    return OnCpu()
