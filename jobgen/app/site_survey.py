"""What a login host tells of its site: one round trip, nothing written there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Missing, Unreachable
from jobgen.named_tuple import NamedTuple
from jobgen.payload import text
from jobgen.submission import wire
from jobgen.survey import whole_nodes
from jobgen.survey.draft import LoginHost, parse_folders
from jobgen.survey.hardware.system_info import parse_modules
from jobgen.survey.slurm_site import ABSENT, SlurmSite, list_commands, read_site

if TYPE_CHECKING:
    from jobgen.survey.choice import Choice
    from jobgen.survey.draft import Gap, ProfileLine
    from jobgen.transport import Transport

DEADLINE = 180.0
"""Seconds for all questions; each has fifteen of its own."""


class Survey(NamedTuple):
    """A site and its login host."""

    site: SlurmSite
    login: LoginHost


def survey(transport: Transport) -> Survey:
    """Ask all there is to ask. Raises Missing where there is no Slurm, Unreachable where it does
    not answer."""
    result = transport.call(build_script(), deadline=DEADLINE)
    try:
        told = wire.index(wire.split_frames(result.out))
    except wire.GarbledError as error:
        message = "the login host's answer cannot be read"
        hint = "something prints in every shell there, or the connection broke off: try again"
        raise Unreachable(Diagnostic("J412", message, hint=hint)) from error
    login = LoginHost(
        told.get("user", ""),
        told.get("home", ""),
        told.get("host", ""),
        parse_folders(told.get("paths", "")),
        parse_modules(told.get("modules", "")),
    )
    answers = {name: wire.read_answer(told, name) for name in list_commands(login.user)}
    found = Survey(read_site(answers, login.user), login)
    if all(answer.code in ABSENT for answer in answers.values()):
        message = f"there is no Slurm on {login.host or 'that host'}: no sinfo, no scontrol"
        hint = "give the login host of the cluster, or load Slurm in ~/.bashrc there"
        raise Missing(Diagnostic("J411", message, hint=hint))
    if not (found.site.nodes or found.site.groups):
        said = next(iter(found.site.silent.values()), "it lists no nodes")
        message = f"Slurm on {login.host} reports no nodes\n{said}"
        hint = f"run sinfo on {login.host}, and try again; name another host with --from LOGIN-HOST"
        raise Unreachable(Diagnostic("J412", message, hint=hint))
    return found


def try_requests(
    transport: Transport, choice: Choice, slurm: Sequence[tuple[str, str]]
) -> ProfileLine | Gap:
    """What the site's sbatch refuses of a job that takes whole nodes; nothing is submitted."""
    asked = whole_nodes.list_questions(choice, slurm)
    asks = [f"ask {name} {command}" for name, command in asked.items()]
    sent = "\n".join([text("common.sh"), "clean_environment", *asks, ""])
    told = wire.index(wire.parse_complete_frames(transport.call(sent, deadline=DEADLINE).out))
    return whole_nodes.read_refusals({name: wire.read_answer(told, name) for name in asked})


def build_script() -> str:
    """The script with all questions. The user's name is known over there only."""
    asks = [
        f"ask {name} {command}".replace(_USER, '"$survey_user"')
        for name, command in list_commands(_USER).items()
    ]
    parts = [text("common.sh"), text("survey.sh"), "clean_environment", "survey", *asks, ""]
    return "\n".join(parts)


_USER = "jobgen_survey_user"
