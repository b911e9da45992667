"""Help reads well at any width, its examples work, and every wrong word has an answer."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator

import click
import pytest

from jobgen.catalog import find_shipped
from jobgen.cli.commands import Verb
from jobgen.cli.foreign_words import ADVICE
from jobgen.cli.main import EXAMPLES, ROOT, VERBS
from tests.cli.conftest import Jobgen


def walk(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from walk(command, *path, name)


COMMANDS = dict(walk(ROOT))
PATHS = [(), *COMMANDS]
LEAVES = {path: command for path, command in COMMANDS.items() if isinstance(command, Verb)}


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
@pytest.mark.parametrize("width", [60, 80])
def test_no_line_of_help_is_wider_than_the_screen(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    said = jobgen(*path, "-h")
    assert said.code == 0
    for line in said.out.split("\n"):
        # a command is one line, so that it can be pasted
        assert len(line) <= width or line.lstrip().startswith(("jobgen ", "ID=$(", "eval ")), line
    assert "\n\n\n" not in said.out


@pytest.mark.parametrize("path", PATHS, ids=" ".join)
def test_help_verb_shows_the_help_of_a_command(jobgen: Jobgen, path: tuple[str, ...]) -> None:
    assert jobgen("help", *path).out == jobgen(*path, "-h").out


def test_help_of_no_command_is_refused(jobgen: Jobgen) -> None:
    for words, says in (
        (("help", "submt"), "'submit'"),
        (("help", "cluster", "ad"), "'add'"),
        (("help", "plan", "more"), "no command 'more'"),
        (("help", "kill"), "jobgen cancel"),
    ):
        said = jobgen(*words)
        assert (said.code, said.out) == (2, "")
        assert says in said.err


@pytest.mark.parametrize("group", ["cluster", "bench"])
def test_a_group_alone_shows_its_help(jobgen: Jobgen, group: str) -> None:
    alone = jobgen(group)
    assert (alone.code, alone.err) == (0, "")
    assert alone.out == jobgen(group, "-h").out


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_first_lines_and_options_are_imperative_phrases(path: tuple[str, ...]) -> None:
    lines = [VERBS[path[0]][1]] if len(path) == 1 else []
    lines += [p.help or "" for p in LEAVES[path].params if isinstance(p, click.Option)]
    assert all(lines), "an option has no help"
    for line in lines:
        assert not line.endswith("."), line
        assert line[0].isupper() or line.startswith("openssh"), line


def examples() -> list[str]:
    texts = [*EXAMPLES, *(text for command in LEAVES.values() for text in command.examples)]
    return [text.partition("  # ")[0].strip() for text in texts]


@pytest.mark.parametrize("example", examples())
def test_an_example_has_real_options_and_clusters(example: str) -> None:
    match = re.search(r"jobgen( [^|)>&]*)", example)
    assert match is not None
    words = shlex.split(match[1].partition(" -- ")[0])  # the rest is another program's
    path = tuple(words[:1]) if tuple(words[:1]) in LEAVES else tuple(words[:2])
    command = LEAVES[path]
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    assert options <= known
    pairs = itertools.pairwise(words)
    named = [value for option, value in pairs if option in ("-c", "--compare")]
    clusters = [name for value in named for name in value.split(",")]
    assert all((find_shipped("clusters") / f"{name}.yaml").is_file() for name in clusters)


def test_the_modeline_of_schema_stands_on_one_line(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width in ("60", "80", "120"):
        monkeypatch.setenv("COLUMNS", width)
        lines = [line.strip() for line in jobgen("schema", "-h").out.split("\n")]
        assert "# yaml-language-server: $schema=./job.schema.json" in lines


TRIED = "run status top queue kill stop tail validate check login attach cp fetch ssh"


@pytest.mark.parametrize("word", sorted({*TRIED.split(), *ADVICE}))
def test_a_command_of_another_tool_names_ours(jobgen: Jobgen, word: str) -> None:
    said = jobgen(word, "@last")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: no command '{word}'\n  = help: use ")
    assert len(said.err.rstrip().split("\n")) <= 3
    for command in re.findall(r"`jobgen (.*?)`", ADVICE[word]):
        names = command.split()
        if names[0].startswith("-"):
            continue
        path = tuple(names[:2]) if tuple(names[:1]) not in LEAVES else tuple(names[:1])
        known = {option for param in LEAVES[path].params for option in param.opts}
        assert {name for name in names if name.startswith("-")} <= known


def test_no_command_of_ours_is_refused() -> None:
    assert not ADVICE.keys() & {*VERBS, "ps"}


@pytest.mark.parametrize("verb", ["plan", "render", "submit"])
def test_a_file_that_is_missing_names_the_verb(jobgen: Jobgen, verb: str) -> None:
    said = jobgen(verb, "nope.yaml")
    assert (said.code, said.out) == (3, "")
    assert "nope.yaml: no such file" in said.err
    assert f"as in: jobgen {verb} job.yaml" in said.err


def test_a_model_in_place_of_a_job_file_is_told_where_to_stand(jobgen: Jobgen) -> None:
    said = jobgen("plan", "meta-llama/Llama-3.1-8B")
    assert said.code == 2
    assert "'meta-llama/Llama-3.1-8B' is a model, not a job file" in said.err
    assert "write train: {model: meta-llama/Llama-3.1-8B}" in said.err


def test_a_command_of_another_tool_is_refused_in_json(jobgen: Jobgen) -> None:
    error = json.loads(jobgen("status", "--json").out)["error"]
    assert error["message"] == "no command 'status'"
    assert "jobgen show" in error["hint"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("plan", "-f", "job.yaml"), "`jobgen plan job.yaml`"),
        (("render", "-fjob.yaml"), "`jobgen render job.yaml`"),
        (("submit", "--config=job.yaml"), "`jobgen submit job.yaml`"),
        (("submit", "--nodes", "4"), "`--set nodes=VALUE`"),
        (("submit", "--partition=gpu"), "`--set slurm.partition=VALUE`"),
        (("submit", "-p", "gpu"), "`--set slurm.partition=VALUE`"),
        (("plan", "--time", "1h"), "`--set time=VALUE`"),
        (("plan", "-n", "2"), "`--set nodes=VALUE`"),
        (("submit", "--ntasks=16"), "`--set gpus_per_node=VALUE`"),
        (("submit", "-C", "a100"), "`--set slurm.constraint=VALUE`"),
        (("submit", "-n", "2"), "-n is --dry-run; for nodes: jobgen submit --set nodes=2"),
        (("plan", "a100x16"), "did you mean -c a100x16?"),
        (("plan", "train.py"), "write one: jobgen init"),
        (("lint", "train.py"), "write one: jobgen init"),
        (("submit", "--dryrun"), "--dry-run"),
        (("logs", "--folow"), "--follow"),
    ],
)
def test_an_option_of_another_tool_names_ours(
    jobgen: Jobgen, words: tuple[str, ...], says: str
) -> None:
    said = jobgen(*words)
    assert (said.code, said.out) == (2, "")
    assert says in said.err


@pytest.mark.parametrize("verb", ["show", "logs", "diagnose", "cancel", "wait"])
def test_a_verb_without_its_job_names_the_newest(jobgen: Jobgen, verb: str) -> None:
    done = jobgen(verb)
    assert done.code == 2
    assert f"newest job: jobgen {verb} @last" in done.err
