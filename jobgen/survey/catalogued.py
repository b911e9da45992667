"""Which GPU of the catalogue a word of Slurm or of nvidia-smi means: all that it can mean.

A type in Slurm's GRES is whatever an administrator wrote, or what AutoDetect made of NVML's
product name (``nvidia_a100-sxm4-80gb``). A word that fits several GPUs gives all of them.
"""

from __future__ import annotations

import re

from jobgen.data import GpuModel, gpus
from jobgen.named_tuple import NamedTuple

_MEANINGLESS = frozenset(
    {"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "graphics", "generation", "gpu"}
    | {"hbm2", "hbm2e", "hbm3", "hbm3e", "oam", "server", "edition", "blackwell", "rev", "tensor"}
    | {"core", "workstation", "accelerator"}
)
_FORM = re.compile(r"sxm\d?|pcie|pci|nvl")
_MEMORY = re.compile(r"(\d{1,4})gi?b?")
_SLICE = re.compile(r"(?:^|[^0-9a-z])\d{1,2}[gc](?:\.\d{1,2}[gc])?\.\d{1,4}gb")
_MIG = re.compile(r"(?:^|[^a-z])mig(?:[^a-z]|$)")
_LESS, _MORE = 0.90, 1.03
"""nvidia-smi shows from 6 % less than the name says (ECC, the driver's own) to 2 % more."""


class _Words(NamedTuple):
    family: frozenset[str]
    form: str
    memory: int | None


def find_candidates(word: str, memory_mib: float | None = None) -> tuple[str, ...]:
    """The catalogue's GPUs that a name or a GRES type can mean, in the catalogue's order.

    ``memory_mib`` is what nvidia-smi shows for the whole GPU. None of an unknown word, or of a
    slice of a GPU (MIG).
    """
    if not word or is_sliced(word):
        return ()
    if word.lower().startswith("nvidia") and (named := _named(word, memory_mib)):
        return named
    asked = _words(word)
    if not asked.family:
        return ()
    found = [gpu for gpu in gpus().values() if _fits(asked, gpu) and _holds(gpu, memory_mib)]
    return tuple(gpu.name for gpu in found)


def is_sliced(word: str) -> bool:
    """Whether a GRES type names a slice of a GPU (MIG): 1g.5gb, a100_3g.20gb, mig_24gb."""
    return bool(_SLICE.search(word.lower()) or _MIG.search(word.lower()))


def find_product(name: str, memory_mib: float | None) -> tuple[str, ...]:
    """The GPUs that a product name can mean, as nvidia-smi prints it, which is exact.

    ``NVIDIA H200`` is the SXM module there: the others say PCIe or NVL.
    """
    found = _named(name, memory_mib) or find_candidates(name, memory_mib)
    if not found and memory_mib is not None:
        # NVIDIA GH200 480GB: the gigabytes are the CPU's
        found = find_candidates(re.sub(r"\b[4-9]\d\dGB\b", "", name), memory_mib)
    modules = tuple(one for one in found if "SXM" in one)
    return modules if len(found) > 1 and len(modules) == 1 else found


def _named(word: str, memory_mib: float | None) -> tuple[str, ...]:
    """The GPUs whose name or other name this is, as NVML writes it."""
    bare = re.sub(r"[^0-9a-z.]+", "-", word.lower()).removeprefix("nvidia-").removeprefix("amd-")
    return tuple(
        gpu.name
        for gpu in gpus().values()
        if bare in (name.lower() for name in (gpu.name, *gpu.aliases)) and _holds(gpu, memory_mib)
    )


def _words(text: str) -> _Words:
    family: set[str] = set()
    form, memory = "", None
    for token in re.split(r"[^0-9a-z]+", text.lower()):
        size = _MEMORY.fullmatch(token)
        if _FORM.fullmatch(token):
            form = token[:3]
        elif size and token[-1] in "gb":
            memory = int(size[1])
        elif token and token not in _MEANINGLESS:
            family |= _parts(token)
    return _Words(frozenset(family), form, memory)


def _parts(token: str) -> set[str]:
    """``rtx3090`` and ``rtxa6000`` are two words."""
    rest = token.removeprefix("rtx")
    return {"rtx", rest} if rest not in (token, "") else {token}


def _fits(asked: _Words, gpu: GpuModel) -> bool:
    ours = _words(gpu.name)
    same = asked.family - {"rtx"} == ours.family - {"rtx"}
    form = not asked.form or not ours.form or asked.form == ours.form
    return same and form and asked.memory in (None, gpu.memory_gib)


def _holds(gpu: GpuModel, memory_mib: float | None) -> bool:
    if memory_mib is None:
        return True
    whole = gpu.memory_gib * 1024
    return _LESS * whole <= memory_mib <= _MORE * whole
