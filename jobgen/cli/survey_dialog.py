"""The questions of ``cluster add`` and ``cluster check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.call import Call
from jobgen.cli.output import defuse, is_tty

if TYPE_CHECKING:
    from jobgen.app.adding import Leave, ProfileRequest
    from jobgen.survey.choice import Choice

HINT = "no node was inspected: --probe submits a two-minute job that inspects one"


def read_request(name: str, chosen: dict[str, Any]) -> ProfileRequest:
    """The words of ``cluster add`` as a value; ``--from ann@host`` is a user and a host."""
    from jobgen.app.adding import ProfileRequest

    given = {key: value for key, value in chosen.items() if value is not None}
    before, at, host = given.get("host", "").partition("@")
    if at and "user" not in given:
        given |= {"user": before, "host": host}
    return ProfileRequest(name, **given)


def choose_leave(call: Call, probe: bool | None) -> Leave:
    """Who decides whether a job is submitted: the flag, ``-y``, else the user on a terminal."""
    import sys

    def ask_user(choice: Choice, slurm: tuple[tuple[str, str], ...]) -> bool:
        if probe is not None:
            return probe
        if not call.flags.yes and not (is_tty(sys.stdin) and is_tty(sys.stderr)):
            call.output.say(HINT)
            return False
        gpus = f", all its {choice.kind.gpus} GPUs" if choice.kind.gpus else ""
        where = " ".join(f"{name} {defuse(value)}" for name, value in slurm)
        question = f"Submit a two-minute job that inspects one node ({where}{gpus})?"
        return call.confirm(question)

    return ask_user


def confirm_write(call: Call, words: ProfileRequest) -> bool:
    """Whether the profile may be written: an existing file is replaced only if the user agrees."""
    from jobgen.app.adding import choose_destination

    path = choose_destination(call.world, words)
    if path is None or not path.exists():
        return True
    if call.confirm(f"{defuse(call.world.format_path(path))} exists. Replace it?"):
        return True
    call.output.say("Nothing was changed.")
    return False


def say(call: Call) -> Any:
    """Where the lines about the job go."""
    return lambda line: call.output.say(defuse(line))
