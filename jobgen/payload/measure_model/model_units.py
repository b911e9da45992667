"""What is sharded and recomputed one by one, and sizes of tensors."""

from __future__ import annotations

from typing import Any

TAKES_MEMORY = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""Operations that compute no values."""


def list_tensors(torch: Any, value: Any) -> list[Any]:
    """All tensors inside."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def find_width(model: Any) -> int:
    """Bytes of an element of most parameters that are trained."""
    sizes: dict[int, int] = {}
    for each in (each for each in model.parameters() if each.requires_grad):
        sizes[each.element_size()] = sizes.get(each.element_size(), 0) + each.numel()
    return max(sizes, key=lambda width: sizes[width]) if sizes else 4


def find_units(torch: Any, model: Any, classes: list[str], least: int | None) -> Any:
    """What is sharded and recomputed one by one: modules of these classes, or of this size, else
    the layers of each outermost list."""
    found: list[tuple[str, Any]] = []
    for name, module in model.named_modules():
        if not name or any(name.startswith(f"{above}.") for above, _ in found):
            continue
        parent = model.get_submodule(name.rpartition(".")[0])
        if classes:
            wanted = type(module).__name__ in classes
        elif least is not None:
            wanted = least <= total(module.parameters()) < total(model.parameters())
        else:
            wanted = isinstance(parent, torch.nn.ModuleList)
            wanted = wanted and not isinstance(module, torch.nn.ModuleList)
        if wanted and total(module.parameters()):
            found.append((name, module))
    return found


def total(parameters: Any) -> int:
    """Elements, each parameter once."""
    return sum({id(p): p.numel() for p in parameters}.values())


def hold(tensors: Any) -> int:
    """Bytes of the storages behind these tensors, each once."""
    return sum({id(s): s.nbytes() for s in (t.untyped_storage() for t in tensors)}.values())
