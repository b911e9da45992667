"""What a run was submitted from, on the screen of ``show -v``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.run_origin import KeptOrigin
    from jobgen.model.origin import ProgramEnvironment, RunOrigin
    from jobgen.model.record import RunRecord

_SHORT = 12
"""Characters of a commit."""
_LABEL = 13
"""Columns before a value."""


def draw_section(kept: KeptOrigin, record: RunRecord, ink: Ink) -> str:
    """The section ``Provenance``: code, versions, packages, image and modules."""
    rows: list[tuple[str, str]] = []
    if kept.origin:
        code = describe_code_folder(record) or describe_code(kept.origin)
        rows += [("code", code), ("jobgen", defuse(kept.origin.jobgen))]
        rows.append(("container", defuse(kept.origin.image)))
    if kept.environment:
        rows += _list_environment(kept.environment)
    else:
        rows.append(("python", "not recorded: its job did not start, or ended before"))
    rows += [("image", defuse(image.describe())) for image in kept.images]
    if not kept.images and kept.environment:
        rows.append(("image", defuse(kept.environment.image)))
    width = ink.width - _LABEL
    lines = [(name, fold(text, width, " " * _LABEL)) for name, text in rows if text]
    return f"{ink('strong', 'Provenance')}\n{align(lines, indent='  ')}"


def describe_code_folder(record: RunRecord) -> str:
    """``/scratch/me/Megatron-LM, 3f2a91b4c0de, 2 files changed``; empty for code that was uploaded.

    It is that of the newest start.
    """
    if not record.code_folder:
        return ""
    newest = max(record.codes, key=lambda code: code.start, default=None)
    if newest is None:
        return f"{defuse(record.code_folder)}, not recorded yet, or its job ended before"
    parts = [defuse(newest.at), defuse(newest.commit[:_SHORT]) or "no git repository"]
    parts += [f"{count(newest.changed, 'file')} changed"] if newest.changed else []
    parts += ["git could not compare its files"] if newest.commit and not newest.diff else []
    return ", ".join(parts)


def describe_code(origin: RunOrigin) -> str:
    """``3f2a91b4c0de, 2 files changed, 1 untracked``."""
    if not origin.commit:
        return "no git repository; the run directory has the files"
    changed = len({*origin.changed, *origin.omitted})
    counts = {"changed": changed, "deleted": len(origin.deleted)}
    counts["untracked"] = len(origin.untracked)
    parts = [count(number, f"{kind} file") for kind, number in counts.items() if number]
    parts += ["git could not compare its files"] if origin.mark == "?" else []
    return ", ".join([defuse(origin.commit[:_SHORT]), *parts])


def _list_environment(environment: ProgramEnvironment) -> Iterator[tuple[str, str]]:
    versions = {
        "torch": environment.torch,
        "CUDA": environment.cuda,
        "HIP": environment.hip,
        "NCCL": environment.nccl,
        "NVIDIA driver": environment.driver,
    }
    named = [f"{name} {defuse(version)}" for name, version in versions.items() if version]
    yield "python", f"{defuse(environment.python)} ({defuse(environment.executable)})"
    yield "versions", ", ".join(named)
    yield "packages", str(len(environment.packages))
    yield "modules", defuse(" ".join(environment.modules))


def dump_section(kept: KeptOrigin) -> dict[str, Any]:
    """The origin and environment as plain data; None for what is not known."""
    origin = kept.origin and kept.origin._asdict()
    return {
        "code": origin,
        "environment": kept.environment and kept.environment._asdict(),
        "images": [image._asdict() for image in kept.images],
    }
