"""Whether a site's sbatch takes a request for whole nodes: asked by --test-only, which submits
nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.shell import Result, join
from jobgen.survey.choice import Choice
from jobgen.survey.draft import Gap, ProfileLine

PATH = ("refuses",)
_PLAIN = "plain"
_REQUESTS = {"exclusive": "--exclusive", "mem": "--mem=0"}
"""Value of ``refuses:`` in a profile → the option of sbatch."""
_NO_ANSWER = 124


def list_questions(choice: Choice, slurm: Sequence[tuple[str, str]]) -> dict[str, str]:
    """A name and a command for each request: a job with all GPUs of a node, then each option."""
    kind = choice.kind
    gres = f"gpu:{kind.gpu_type}:{kind.gpus}" if kind.gpu_type else f"gpu:{kind.gpus}"
    plain = (
        *("sbatch", "--test-only", "--nodes=1", "--ntasks-per-node=1", "--time=2"),
        *(f"--{name}={value}" for name, value in slurm),
        *([f"--gres={gres}"] if kind.gpus else []),
    )
    options = {_PLAIN: ""} | _REQUESTS
    return {
        name: join([*plain, *([option] if option else []), "--wrap=true"])
        for name, option in options.items()
    }


def read_refusals(answers: Mapping[str, Result]) -> ProfileLine | Gap:
    """What the site refuses of a job that it takes otherwise; an empty list where it takes both."""
    plain = answers[_PLAIN]
    if plain.code != 0:
        return Gap(PATH, f"sbatch --test-only: {_last_line(plain)}", tuple(_REQUESTS))
    refused = {
        name: f"{option}: {_last_line(answers[name])}"
        for name, option in _REQUESTS.items()
        if answers[name].code not in (0, _NO_ANSWER)
    }
    how = "; ".join(refused.values()) or f"takes {' and '.join(_REQUESTS.values())}"
    return ProfileLine(PATH, tuple(refused), f"sbatch --test-only {how}")


def _last_line(answer: Result) -> str:
    lines = [line for line in answer.error_text.split("\n") if line.strip()]
    return lines[-1] if lines else f"exit code {answer.code}"
