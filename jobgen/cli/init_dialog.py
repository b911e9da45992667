"""What ``init`` asks on a terminal: plain numbered choices, answered by typing or with Enter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from jobgen.cli.call import Call
from jobgen.cli.layout import clip, fold
from jobgen.cli.output import defuse, is_tty
from jobgen.errors import Usage

if TYPE_CHECKING:
    from jobgen.survey.project.detect import Project
    from jobgen.survey.project.init_questions import InitQuestion, JobAnswers

_SET = {"cluster": "cluster", "nodes": "nodes", "gpus_per_node": "gpus", "time": "time"}
"""Key of job.yaml, as ``--set`` names it → the question that it answers."""
_NEEDLESS = {"local": ("gpus",)}
"""Questions that mean nothing on a cluster: the local one has what this machine has."""


def choose_answers(call: Call, project: Project) -> JobAnswers:
    """The answers: the defaults with ``-y`` and ``--json``, else what a person types.

    Raises Usage if nobody can be asked, Missing for an unknown cluster.
    """
    from jobgen.app.initializing import list_clusters
    from jobgen.survey.project.init_questions import JobAnswers, ask_program, list_questions

    asking = not call.flags.yes and not call.flags.json
    if asking and not (is_tty(sys.stdin) and is_tty(sys.stderr)):
        hint = "take the detected defaults: jobgen init -y; for a cluster: jobgen init -y -c NAME; "
        hint += "list all: jobgen cluster ls --all"
        raise Usage("init asks questions, but there is no terminal", hint=hint)
    question = ask_program(project)
    if not question.default and not asking:
        raise Usage(
            "no Python program in this folder",
            hint="write train.py first, or name the folder that holds it: jobgen init DIR",
        )
    program = question.default
    if asking and len(question.offered) != 1:
        program = _ask(question, call.output.talk.width)
    answers = JobAnswers(program)
    settled = _read_sets(call)
    for question in list_questions(project, program, *list_clusters(call.world)):
        given = question.default
        if question.key in settled:
            given = _check_set(question, settled[question.key])
        elif question.key == "cluster" and call.flags.cluster:
            given = call.flags.cluster
            call.world.open_catalog().find_cluster(given)
        elif asking and question.key not in _NEEDLESS.get(answers.cluster, ()):
            given = _ask(question, call.output.talk.width)
        answers = answers._replace(**{question.key: given})
    return answers


def _read_sets(call: Call) -> dict[str, str]:
    """Answers that ``--set`` gives. Raises Usage for a key that init does not write."""
    settled = {}
    for one in call.flags.sets:
        key, equals, value = one.partition("=")
        if key not in _SET or not equals:
            hint = f"init takes --set of {', '.join(_SET)}; write other keys into job.yaml"
            raise Usage(f"--set {clip(defuse(one), 60)}: not a question of init", hint=hint)
        settled[_SET[key]] = value
    return settled


def _check_set(question: InitQuestion, value: str) -> str:
    """A value of ``--set``, as the question takes it. Raises Usage."""
    try:
        return question.check(value)
    except ValueError as error:
        raise Usage(f"--set: {question.title.lower()}: {defuse(error)}") from None


def _ask(question: InitQuestion, width: int) -> str:
    """One answer; a wrong one is asked for again. Raises click.Abort at the end of the input."""
    lines = [
        f"  {number}  {one.value:16}  {defuse(one.label)}".rstrip()
        for number, one in enumerate(question.offered, 1)
    ]
    default = f" [{question.default}]" if question.default else ""
    _write("\n".join([f"{question.title}:", *lines, ""]) if lines else "")
    while True:
        _write(f"Number or name{default}: " if lines else f"{question.title}{default}: ")
        line = sys.stdin.readline()
        if not line:
            _write("\n")
            raise click.Abort
        try:
            return _read_answer(question, line.strip())
        except ValueError as error:
            _write(f"  {fold(defuse(error), width - 2, '  ')}\n")


def _read_answer(question: InitQuestion, text: str) -> str:
    """The answer that a line means. Raises ValueError."""
    if not text and question.default:
        return question.default
    if text.isascii() and text.isdigit() and question.offered:
        index = int(text[:6]) - 1
        if not 0 <= index < len(question.offered):
            raise ValueError(f"enter a number from 1 to {len(question.offered)}, or a name")
        return question.offered[index].value
    return question.check(text)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
