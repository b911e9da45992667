"""The answer of ``init``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import fold
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.initializing import WrittenFiles
    from jobgen.survey.project.detect import Project
    from jobgen.survey.project.init_questions import JobAnswers

_TITLES = {
    "conda": "conda environment {}",
    "venv": "{}/",
    "deepspeed_config": "{} (DeepSpeed)",
    "accelerate_config": "{} (accelerate)",
}


def describe_project(project: Project, ink: Ink) -> str:
    """One sentence: what was found in the folder."""
    found = [f"{p.path} ({p.traits.title})" for p in project.programs[:3]]
    if len(project.programs) > 3:
        found.append(count(len(project.programs) - 3, "more program"))
    found += [_TITLES.get(name, "{}").format(path) for name, path in project.files.items()]
    found += ["... (a large folder: only its first files were read)"] * project.listing.truncated
    text = defuse(", ".join(found)) or "no Python program"
    return f"Found: {fold(text, ink.width - 7, ' ' * 7)}"


def data(
    project: Project, answers: JobAnswers, text: str, written: WrittenFiles | None
) -> dict[str, Any]:
    """What was detected, chosen and written, as plain data; ``written`` is null if nothing was."""
    programs = [
        {"path": p.path, "kind": p.kind, "required": list(p.facts.required)}
        for p in project.programs
    ]
    return {
        "detected": {"name": project.name, "programs": programs, "files": dict(project.files)},
        "answers": answers._asdict(),
        "job": text,
        "written": written and written.job,
        "next": written and written.next,
    }


def screen(written: WrittenFiles, ink: Ink) -> str:
    """What was written, and the next command."""
    schema = f" and {defuse(written.schema)} (for editors)" if written.schema else ""
    next_command = ink("strong", defuse(written.next))
    return f"Wrote {defuse(written.job)}{schema}\nNext: {next_command}\n"
