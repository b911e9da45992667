"""The mapping ``notify:`` of job.yaml: who is told of a job's start and end."""

from __future__ import annotations

import re

from jobgen.model.fields import WORD, check_line
from jobgen.model.form import Check, Form, check_list, key, refuse
from jobgen.model.settings import COMMAND
from jobgen.model.units import clip

EVENTS = {
    "start": "BEGIN",
    "fail": "FAIL",
    "end": "END",
    "requeue": "REQUEUE",
    "time_limit": "TIME_LIMIT_90",
}
"""What can be reported → the word of ``sbatch --mail-type``."""
SECRET = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)
_URL = re.compile(r"https?://[^\s\"'\\<>^`{|}/]+(/[^\s\"'\\<>^`{|}]*)?", re.ASCII)


def check_event(value: object) -> str:
    """An event of a job; ``fails`` and Slurm's words are answered with ours."""
    from jobgen.model.fields import suggest

    word = check_line(value)
    if word not in EVENTS:
        slurm = {theirs: ours for ours, theirs in EVENTS.items()}
        ours = slurm.get(word.upper())
        hint = f"write {ours}" if ours else suggest(word, [*EVENTS])
        raise refuse("J123", f"unknown event '{clip(word)}'", hint)
    return word


def check_address(value: object) -> str:
    """An address, or a user name, as ``sbatch --mail-user`` takes it."""
    word = check_line(value)
    if not re.fullmatch(r"[^\s@,]+(@[^\s@,]+)?", word) or word.startswith("-"):
        raise refuse("J123", f"'{clip(word)}' is not an address", "for example me@example.org")
    return word


def check_webhook(value: object) -> str:
    """The address of a web server, or ``$NAME`` of the secret that holds it."""
    word = check_line(value)
    if not SECRET.fullmatch(word) and not _URL.fullmatch(word):
        # the text may be a secret
        raise refuse("J123", "expected a URL or the name of a secret", "webhook: $SLACK_URL")
    return word


class Notify(Form):
    """Messages about the job: by mail from Slurm, by a webhook or a command from the job."""

    mail: str | None = key(
        Check(check_address, WORD),
        default=None,
        doc="Address that Slurm sends mail to: --mail-user, with --mail-type from `on`.",
        example="me@example.org",
    )
    webhook: str | None = key(
        Check(check_webhook, {"type": "string"}),
        default=None,
        doc="URL to which the job posts JSON, or $NAME of the secret that holds it.",
        example="$SLACK_URL",
    )
    command: tuple[str, ...] = key(
        COMMAND,
        default=(),
        doc=(
            "Command that the job runs in the workdir on its first node, with the JSON on its "
            "standard input. It may take 10 seconds."
        ),
        example="[./tell-team.sh, training]",
    )
    on: tuple[str, ...] = key(
        check_list(Check(check_event, {"enum": [*EVENTS]})),
        default=("end",),
        doc=(
            "When: start; end, whatever the result; fail, an end that is no success; requeue; "
            "time_limit, the pre-timeout signal of checkpoint (mail: 90 % of the time)."
        ),
        example="[start, fail]",
    )
