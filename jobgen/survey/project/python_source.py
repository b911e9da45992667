"""A Python file, parsed and never run: what it imports and whether it is a program."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.survey.python_imports import parse_python

_DEEPEST = 8
"""Parts of a dotted name that are read."""
_NO_MODEL = re.compile(r"Tokenizer|Processor|Extractor|Config|Pipeline|Scheduler|Peft|^$")
"""Classes whose ``from_pretrained`` loads no base model."""
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?", re.ASCII)


class PythonFacts(NamedTuple):
    """What one Python file shows of itself."""

    names: frozenset[str] = frozenset()
    """Modules that it imports and dotted names that it uses, with aliases resolved:
    ``torch.distributed``, ``transformers.Trainer``."""
    guarded: bool = False
    """Whether it has ``if __name__ == "__main__":``."""
    required: tuple[str, ...] = ()
    """Options and arguments that its argparse parser requires."""
    options: frozenset[str] = frozenset()
    """Options that its argparse parser knows."""
    model: str = ""
    """The id of the only model that it loads by a literal; empty if there is none, or several."""
    parsed: bool = True
    """False if Python cannot parse it."""

    def uses(self, *names: str) -> bool:
        """Whether it uses any of these modules or names, or something in them."""
        starts = tuple(f"{name}." for name in names)
        return any(f"{own}.".startswith(starts) for own in self.names)


def read_python(text: str) -> PythonFacts:
    """The facts of a file's text. Never raises, whatever the text is."""
    tree = parse_python(text)
    if tree is None:
        return PythonFacts(parsed=False)
    nodes = list(ast.walk(tree))
    aliases = dict(_list_imports(nodes))
    names = {*aliases.values(), *_list_dotted(nodes, aliases)}
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    arguments = [(name, call) for call in calls if (name := _get_argument(call))]
    return PythonFacts(
        frozenset(names),
        any(isinstance(node, ast.If) and _is_guard(node.test) for node in nodes),
        tuple(name for name, call in arguments if _is_required(name, call)),
        frozenset(name for name, _ in arguments if name.startswith("-")),
        _find_model(calls),
    )


def _list_imports(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """The name that an import binds, or a module's own, and the full name that it stands for."""
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    yield alias.asname, alias.name
                else:
                    yield alias.name.partition(".")[0], alias.name.partition(".")[0]
                    yield alias.name, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = "." * node.level + (node.module or "")
            dot = "." if node.module else ""
            yield start, start
            for alias in node.names:
                yield alias.asname or alias.name, f"{start}{dot}{alias.name}"


def _list_dotted(nodes: list[ast.AST], aliases: dict[str, str]) -> Iterator[str]:
    """``a.b.c`` of every attribute whose first name was imported."""
    for node in nodes:
        parts: list[str] = []
        part: ast.AST = node
        while isinstance(part, ast.Attribute) and len(parts) < _DEEPEST:
            parts.insert(0, part.attr)
            part = part.value
        if parts and isinstance(part, ast.Name) and part.id in aliases:
            yield ".".join([aliases[part.id], *parts])


def _is_guard(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = (test.left, test.comparators[0])
    named = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return named and any(isinstance(s, ast.Constant) and s.value == "__main__" for s in sides)


def _get_argument(call: ast.Call) -> str:
    """The longest name of an argument that ``add_argument`` declares; empty for other calls."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "add_argument":
        return ""
    texts = [a.value for a in call.args if isinstance(a, ast.Constant)]
    return max((text for text in texts if isinstance(text, str)), key=len, default="")


def _is_required(name: str, call: ast.Call) -> bool:
    keywords = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
    if name.startswith("-"):
        return keywords.get("required") is True
    return keywords.get("nargs") not in ("?", "*") and "default" not in keywords


def _find_model(calls: list[ast.Call]) -> str:
    models = {model for call in calls if (model := _get_model(call))}
    return models.pop() if len(models) == 1 else ""


def _get_model(call: ast.Call) -> str:
    """The Hub id in ``AutoModel.from_pretrained("…")``; empty for other calls."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "from_pretrained":
        return ""
    loader = call.func.value
    name = loader.attr if isinstance(loader, ast.Attribute) else getattr(loader, "id", "")
    named = [k.value for k in call.keywords if k.arg == "pretrained_model_name_or_path"]
    model = next(iter([*call.args, *named]), None)
    if _NO_MODEL.search(name) or not isinstance(model, ast.Constant):
        return ""
    is_id = isinstance(model.value, str) and _HUB_ID.fullmatch(model.value)
    return str(model.value) if is_id else ""
