"""The answer of ``explain``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, clip, fold
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.explaining import Explained
    from jobgen.data.env_variables import EnvVariable, Hearsay, OwnVariable
    from jobgen.data.message_codes import Code
    from jobgen.data.plan_words import PlanWord
    from jobgen.fabric.variables import VariableDiagnostic
    from jobgen.load.key_reference import KeyEntry

_WIDEST = 100
_HUNDREDS = {
    "J1": "job files, profiles, secrets, templates, upload",
    "J2": "what the job asks for and the cluster has; the planner",
    "J3": "lint: programs, environment variables",
    "J4": "SSH, cluster add, doctor, this machine",
    "J5": "why jobs die: what diagnose finds",
}
_FACTS = (
    ("Read by", "owner"),
    ("Values", "values"),
    ("Default", "default"),
    ("Since", "since"),
    ("Until", "until"),
    ("Instead", "successor"),
    ("Safe to set", "safe"),
    ("Source", "source"),
)
"""The lines of a variable: label → field."""
_GROUPS = {
    "rendezvous": "Set for every rank, for torch.distributed",
    "program": "Set for the program",
    "scripts": "Set by the rendered scripts for each other; may change",
    "machine": "Read by jobgen on your machine",
}


def screen(found: Explained, ink: Ink) -> str:
    """One code, key or variable in full, or a list where there are several."""
    if found.codes:
        return _codes(found, ink)
    if found.words and found.family:
        return _list_names([(row.title, row.meaning) for row in found.words], ink)
    if found.keys and found.family:
        return _list_keys(found.keys, ink)
    if len(found.variables) + len(found.hearsay) + len(found.own) > 1 and "*" in found.variable:
        return _family(found, ink)
    parts = [_plan_word(row, ink) for row in found.words]
    parts += [_key(found, ink)] if found.keys else []
    parts += [_own_variable(row, ink) for row in found.own]
    parts += [_variable(row, found.variable, ink) for row in found.variables]
    parts += [_hearsay(said, found, ink) for said in found.hearsay]
    parts += [_finding(said, ink) for said in found.findings if said.code != "J304"]
    return "\n".join(parts)


def data(found: Explained) -> list[dict[str, Any]]:
    """The explained codes, keys or variables as plain data."""
    return [
        *(_dump_code(code, found) for code in found.codes),
        *({"kind": "word", **row._asdict()} for row in found.words),
        *({"kind": "key", **key._asdict()} for key in (*found.keys, *found.others)),
        *({"kind": "jobgen", **row._asdict()} for row in found.own),
        *({"kind": "variable", **row._asdict()} for row in found.variables),
        *({"kind": "hearsay", **said._asdict()} for said in found.hearsay),
        *({"kind": "finding", **said._asdict()} for said in found.findings),
    ]


def _dump_code(code: Code, found: Explained) -> dict[str, Any]:
    texts = {name: value for name, value in code._asdict().items() if name != "words"}
    return {**texts, **({"programs": dict(found.programs)} if found.programs else {})}


def _codes(found: Explained, ink: Ink) -> str:
    if found.family:
        return align((c.code, c.title) for c in found.codes)
    if len(found.codes) > 1:
        return _overview(found)
    code = found.codes[0]
    parts = [ink("strong", f"{code.code}: {code.title}") + "\n"]
    parts += [
        fold(p.replace("\n", " "), min(ink.width, _WIDEST)) + "\n" for p in code.why.split("\n\n")
    ]
    for label, text in code.examples:
        if text:
            parts.append(f"{label}:\n{textwrap.indent(text, '    ')}\n")
    if found.programs:
        parts.append(f"In the program:\n{align(found.programs, indent='    ')}")
    return "\n".join(parts)


def _overview(found: Explained) -> str:
    """What can be explained: a line for each hundred codes, with the command that lists them."""
    rows = []
    for hundred, subject in _HUNDREDS.items():
        number = sum(code.code.startswith(hundred) for code in found.codes)
        rows.append((f"jobgen explain '{hundred}*'", f"{count(number, 'code')}: {subject}"))
    others = f"some of {count(found.more, 'variable')}: NCCL, PyTorch, libfabric, UCX, CUDA"
    rows += [("jobgen explain 'NCCL_IB_*'", others), ("jobgen explain J131", "one in full")]
    rows += [("jobgen explain train.micro_batch", "a key of job.yaml or cluster.yaml")]
    rows += [("jobgen explain words", "words of the plan: MFU, NEEDS, exposed, logits")]
    return align(rows)


def _key(found: Explained, ink: Ink) -> str:
    """Meaning first, then values, default and example; at last the keys inside it."""
    key, width = found.keys[0], min(ink.width, _WIDEST)
    facts = [
        ("Values", key.values),
        ("Default", "none: the key is required" if key.needed else key.default),
        ("Example", key.example),
        ("See also", ", ".join(f"{other.path} ({other.file})" for other in found.others)),
    ]
    title = ink("strong", key.path) + f", a key of {key.file}\n"
    parts = [title, fold(_plain(key.meaning), width) + "\n", _draw_facts(facts, width)]
    if found.below:
        parts += ["Keys inside it:\n" + _list_keys(found.below, ink)]
    return "\n".join(parts)


def _list_keys(keys: Iterable[KeyEntry], ink: Ink) -> str:
    """A line for each key: its path and what it does."""
    return _list_names([(key.path, _plain(key.meaning)) for key in keys], ink)


def _plan_word(row: PlanWord, ink: Ink) -> str:
    width = min(ink.width, _WIDEST)
    facts = _draw_facts([("Keys", ", ".join(row.keys)), ("Source", row.source)], width)
    title = ink("strong", row.title) + ", a word of the plan\n"
    return "\n".join([title, fold(row.meaning, width) + "\n", *([facts] if facts else [])])


def _own_variable(row: OwnVariable, ink: Ink) -> str:
    width = min(ink.width, _WIDEST)
    meaning = fold(_plain(row.meaning), width)
    return "\n\n".join([ink("strong", row.name), meaning, f"{_GROUPS[row.group]}."]) + "\n"


def _plain(text: str) -> str:
    """Markdown without its marks."""
    return text.replace("`", "")


def _draw_facts(facts: Iterable[tuple[str, str]], width: int) -> str:
    """A line for each fact that is known."""
    rows = [(label, _plain(text)) for label, text in facts if text and text != "-"]
    wide = max((len(label) for label, _ in rows), default=0) + 2
    indent = " " * wide
    return "".join(f"{label + ':':<{wide}}{fold(t, width - wide, indent)}\n" for label, t in rows)


def _variable(row: EnvVariable, asked: str, ink: Ink) -> str:
    """Meaning first, then a line for each fact that is known."""
    width = min(ink.width, _WIDEST)
    title = row.name if row.name == asked else f"{asked}, of {row.name}"
    meaning = row.meaning[:1].upper() + row.meaning[1:]
    parts = [ink("strong", title) + "\n", fold(meaning.rstrip(".") + ".", width) + "\n"]
    facts = [(label, str(getattr(row, field))) for label, field in _FACTS]
    return "\n".join([*parts, _draw_facts(facts, width)])


def _hearsay(said: Hearsay, found: Explained, ink: Ink) -> str:
    """What is wrong with a name or a value, and what to write."""
    width = min(ink.width, _WIDEST)
    name = said.entry if "=" in said.entry or not found.variable else found.variable
    verdict = fold(f"Nothing reads {name}: {said.why}.", width)
    instead = "Write nothing." if said.instead == "none" else f"Write instead: {said.instead}"
    source = "Source: absent from every release of NCCL from 2.3.5 and of PyTorch from 1.13."
    if "renamed" in said.why:
        verdict = fold(f"{name}: {said.why}.", width)
        source = "Source: PyTorch, torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp."
    if "=" in said.entry:
        verdict, source = fold(f"{name}: {said.why}.", width), "Source: NCCL's user guide, env.rst."
    parts = [ink("strong", name), verdict, fold(instead, width), source]
    return "\n\n".join(parts) + "\n"


def _finding(said: VariableDiagnostic, ink: Ink) -> str:
    """What the judge says of a value."""
    width = min(ink.width, _WIDEST)
    label = ink(said.severity, f"{said.severity}[{said.code}]:")
    parts = [fold(f"{label} {defuse(said.message)}", width)]
    if said.hint:
        parts.append(fold(f"  = help: {defuse(said.hint)}", width, " " * 10))
    return "\n".join(parts) + "\n"


_LONG = 32
"""A longer name has a line of its own, so that meanings have room beside the others."""


def _family(found: Explained, ink: Ink) -> str:
    """A line for each: its name and what it does."""
    rows = [(row.name, row.meaning) for row in found.variables]
    rows += [(row.name, _plain(row.meaning)) for row in found.own]
    rows += [(said.entry, f"nothing reads it: {said.why}") for said in found.hearsay]
    return _list_names(rows, ink)


def _list_names(rows: Sequence[tuple[str, str]], ink: Ink) -> str:
    first = min(max(len(name) for name, _ in rows), _LONG)
    room = max(20, ink.width - first - 2)
    lines = []
    for name, text in rows:
        above = f"{name}\n{'':{first}}" if len(name) > first else f"{name:{first}}"
        lines.append(f"{above}  {clip(text, room)}\n")
    return "".join(lines)
