"""What is asked on the login host: each question with its own deadline, all in one script.

A question belongs to a group that stands for what it waits for. Once the controller, the
accounting or the disk has left a question without an answer, the others of its group are left out:
one thing that hangs costs its deadline once, and is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.payload import text
from jobgen.shell import Command, Raw, Word, join, list_names, quote_expandable
from jobgen.survey.health import NOT_ASKED, Answer

DEADLINE = 110.0
"""Seconds for all of them; their own deadlines end earlier, unless a command cannot be killed."""

TOOLS = (
    *("awk", "bash", "cat", "cut", "date", "dd", "df", "dirname", "env", "find", "grep", "head"),
    *("id", "ln", "mkdir", "mv", "rm", "sed", "setsid", "sha256sum", "stat", "sync", "tail"),
    *("tar", "timeout", "uname"),
)
"""Programs that jobgen's own scripts run on the login host or in the job."""
SLURM = ("sbatch", "squeue", "scancel", "scontrol")
"""Those of Slurm without which no job can be sent, followed or cancelled."""
ASSOCIATION = ("account", "partition", "qos", "defaultqos", "maxjobs", "maxsubmit", "cluster")
_OWN = Raw('"$user_locale"'), Raw('"$user_umask"')
_ME = Raw('"user=$(id -un)"')
_FROM_STDIN = 'script=$1; shift; printf "%s" "$script" | "$@"'


class Question(NamedTuple):
    """A command, how long it may take, and what it waits for."""

    key: str
    group: str
    seconds: int
    argv: Sequence[Word]
    gate: bool = False
    """Whether the rest of its group is left out where it fails."""


def ask_shell() -> Question:
    """How the account finds itself on the login host, before anything is cleaned."""
    words = ("sh", "-c", text("doctor_shell.sh"), "sh", *_OWN, *TOOLS, *SLURM)
    return Question("shell", "shell", 10, words)


def ask_slurm(test: str, options: Sequence[str] = ()) -> Iterable[Question]:
    """What is asked of Slurm; ``test`` is a script that it is asked to judge and not to run."""
    yield Question("version", "", 5, ("sbatch", "--version"))
    yield Question("ping", "controller", 6, ("scontrol", "ping"), gate=True)
    yield Question("config", "controller", 8, ("scontrol", "show", "config"), gate=True)
    partitions = ("scontrol", "--all", "--oneliner", "show", "partition")
    yield Question("partitions", "controller", 8, partitions)
    yield Question("queue", "controller", 8, ("squeue", "--me", "--noheader", "--format=%i"))
    if test:
        words = ("sh", "-c", _FROM_STDIN, "sh", test, "sbatch", "--test-only", *options)
        yield Question("test", "controller", 12, words)
    past = ("sacct", "--noheader", "--allocations", "--parsable2", "--starttime=now")
    yield Question("past", "accounting", 10, (*past, "--format=JobID"), gate=True)
    what = f"format={','.join(ASSOCIATION)}"
    show = ("sacctmgr", "--noheader", "--parsable2", "--readonly", "show", "association")
    yield Question("association", "accounting", 10, (*show, "where", _ME, what))


def ask_disk(root: str) -> Iterable[Question]:
    """What is asked of the disk that run directories go to; ``$NAME`` in root expands there."""
    where = Raw(quote_expandable(root))
    unset = [Raw(f'"{name}=${{{name}:-}}"') for name in dict.fromkeys(list_names(root))]
    words = ("sh", "-c", text("doctor_disk.sh"), "sh", where, *unset)
    yield Question("disk", "disk", 15, words, gate=True)
    yield Question("runs", "disk", 5, ("du", "-sk", "--", where))
    yield Question("quota", "quota", 5, ("quota", "-w"))
    yield Question("lustre", "quota", 5, ("lfs", "quota", "-q", "-u", Raw('"$(id -un)"'), where))


def build_script(questions: Iterable[Question]) -> str:
    """The script that asks them in order; what it prints is read by ``parse_answers``."""
    lines = [text("common.sh"), text("doctor.sh")]
    for number, question in enumerate(questions):
        if number == 1:
            lines.append("clean_environment")  # as before every command of jobgen's
        call = ("probe", question.group or "-", question.key, str(question.seconds))
        gate = f" || leave_out {join([question.group])}" if question.gate else ""
        lines.append(f"{Command((*call, *question.argv))}{gate}")
    return "\n".join([*lines, ""])


def build_clock_script() -> str:
    """The script that tells the time over there, in seconds since 1970."""
    return "date +%s.%N"


def parse_answers(frames: Iterable[tuple[str, str]]) -> dict[str, Answer]:
    """The answers in the frames that came. The last question, where it has none, was late."""
    told: dict[str, dict[str, str]] = {}
    last = ""
    for key, content in frames:
        if key == "asking":
            last = content
            told.setdefault(last, {})
        else:
            name, _, part = key.partition(".")
            told.setdefault(name, {})[part] = content
    found = {name: _answer(parts) for name, parts in told.items()}
    if last in found and "code" not in told[last]:
        found[last] = found[last]._replace(code=124)
    return found


def _answer(parts: dict[str, str]) -> Answer:
    code, took = parts.get("code", ""), parts.get("ms", "")
    exit_code = int(code) if code.isdecimal() and code.isascii() and len(code) < 4 else NOT_ASKED
    seconds = int(took) / 1000 if took.isdecimal() and took.isascii() and len(took) < 9 else None
    return Answer(exit_code, parts.get("out", ""), parts.get("err", ""), seconds)
