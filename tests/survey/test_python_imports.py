"""What Python files import: at once, perhaps, or from beside themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.survey.python_imports import ImportedModule, read_imports, select_foreign


def required(text: str) -> dict[str, bool]:
    return {name: each.required for name, each in read_imports({"train.py": text}).items()}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("import torch", {"torch": True}),
        ("import torch.distributed as dist, numpy", {"torch": True, "numpy": True}),
        ("from transformers.trainer import Trainer", {"transformers": True}),
        ("from . import x\nfrom ..y import z", {}),
        ("try:\n import a\nexcept ImportError:\n a = None", {"a": False}),
        ("try:\n import a\nexcept (OSError, ImportError):\n import b", {"a": False, "b": False}),
        ("try:\n import a\nexcept ImportError as e:\n raise SystemExit from e", {"a": True}),
        ("try:\n import a\nexcept KeyError:\n pass", {"a": True}),
        ("try:\n import a\nfinally:\n import b", {"a": True, "b": True}),
        ("def main():\n import wandb\nmain()", {"wandb": False}),
        ("class A:\n import a", {"a": True}),
        ("if x:\n import a\nelse:\n import b", {"a": False, "b": False}),
        ("if __name__ == '__main__':\n import a", {"a": True}),
        ("if TYPE_CHECKING:\n import a\nimport b", {"b": True}),
        ("import typing\nif typing.TYPE_CHECKING:\n import a", {"typing": True}),
        ("def f():\n import a\nimport a", {"a": True}),
        ("with x:\n import a", {"a": True}),
        ("this is no python", {}),
        ("\0", {}),
    ],
)
def test_imports_of_a_file(text: str, modules: dict[str, bool]) -> None:
    assert required(text) == modules


def test_an_import_is_named_with_its_line() -> None:
    found = read_imports({"a/train.py": "\n\nimport torch\n", "run.sh": "import nothing"})
    assert found == {"torch": ImportedModule("torch", "a/train.py:3", required=True)}


def test_a_module_that_is_uploaded_is_not_looked_for() -> None:
    names = ["helper", "pkg", "inner", "lib", "beside", "torch", "data"]
    modules = {name: ImportedModule(name, "train.py:1", required=True) for name in names}
    uploaded = [
        "scripts/train.py",
        "scripts/beside.py",
        "helper.py",
        "pkg/__init__.py",
        "src/lib/core.py",
        "deep/down/inner.py",
        "data/set.csv",
    ]
    foreign = select_foreign(modules, ["scripts/train.py"], uploaded)
    assert [module.name for module in foreign] == ["inner", "torch"]


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    read_imports({"a.py": text})
