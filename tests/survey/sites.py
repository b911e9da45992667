"""The real answers of a site, and the profile that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jobgen.app import adding
from jobgen.app.adding import ProfileRequest
from jobgen.app.site_survey import Survey
from jobgen.load import check
from jobgen.shell import Result
from jobgen.survey import choice, write
from jobgen.survey.draft import Draft, LoginHost, parse_folders
from jobgen.survey.node_profile import Probe
from jobgen.survey.slurm_site import list_commands, read_site

SITES = Path(__file__).parents[1] / "facts" / "sites"
HOME = "HOME nfs 734003200 /home/ann\nSCRATCH lustre 9734003200 /scratch/ann"


def answers(release: str, **changed: str) -> dict[str, Result]:
    """The answers of that release; a question without one failed."""
    found = {}
    for name in list_commands("ann"):
        path = SITES / release / f"{name}.txt"
        text = changed.get(name, path.read_text() if path.exists() else None)
        failed = Result(1, b"", b"Slurm accounting storage is disabled\n")
        found[name] = failed if text is None else Result(0, text.encode("utf-8", "replace"))
    return found


def survey(told: Mapping[str, Result]) -> Survey:
    """These answers as ``cluster add`` has them."""
    return Survey(
        read_site(told, "ann"), LoginHost("ann", "/home/ann", "login", parse_folders(HOME))
    )


def made(told: Survey, node: Probe | None = None, **words: Any) -> tuple[Draft, str] | None:
    """The draft and the text of a profile; None where there is nothing to describe."""
    wanted = ProfileRequest("mine", "login", **words)
    chosen = choice.choose(told.site, wanted.partition)
    if chosen is None:
        return None
    draft = adding.complete_draft(adding.draft_profile(told, chosen, wanted), chosen, node, wanted)
    return draft, write.format_profile((), draft)


def of_nodes(text: str) -> Any:
    """The problems of the profile that follows from a broken answer about the nodes."""
    found = made(survey(answers("24.11", node=text, sinfo="")))
    return found and check(found[1], "x")
