"""The way in: help, usage, exit codes, and what happens when something is wrong."""

import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

from jobgen.cli import main as entry
from jobgen.cli.main import ROOT, VERBS
from jobgen.errors import Refused
from tests.cli.conftest import Jobgen, process


def command(name: str) -> click.Command:
    found = ROOT.get_command(click.Context(ROOT), name)
    assert found is not None
    return found


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_has_a_line_for_every_verb_and_few_others(jobgen: Jobgen, words: list[str]) -> None:
    said = jobgen(*words)
    assert said.code == 0
    assert all(re.search(rf"^  {verb} ", said.out, re.M) for verb in VERBS)
    assert len(said.out.splitlines()) <= len(VERBS) + 26
    assert all(len(line) <= 80 for line in said.out.splitlines())


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("cluster", "bench")])
def test_the_help_of_a_verb_shows_examples_first(jobgen: Jobgen, verb: str) -> None:
    out = jobgen(verb, "-h").out
    first, usage = out.index(f"jobgen {verb}"), out.index("Usage:")
    assert first < usage
    assert len(out.splitlines()) <= 35
    assert all(len(line) <= 100 for line in out.splitlines())


@pytest.mark.parametrize("words", [("lint",), ("explain",), ("cluster", "add")])
def test_the_sentences_of_help_have_single_spaces(jobgen: Jobgen, words: tuple[str, ...]) -> None:
    out = jobgen(*words, "-h").out
    sentences = out[out.index("Usage:") : out.index("Options:")]
    assert not re.search(r"\S {2,}\S", sentences)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_short_because_it_only_asks_and_shows(verb: str) -> None:
    module = import_module(VERBS[verb][0])
    source = Path(str(module.__file__)).read_text()
    bodies = re.split(r"^def \w+\((?:.|\n)*?\) -> [^\n]+:\n", source, flags=re.M)[1:]
    for body in bodies:
        code = re.sub(r'^    """(?:.|\n)*?"""\n', "", body).split("\n\n\n")[0]
        assert len([line for line in code.splitlines() if line.strip()]) <= 15, verb


def test_a_hidden_name_is_the_same_verb(jobgen: Jobgen) -> None:
    assert jobgen("ps").out == jobgen("ls").out
    assert "\n  ps" not in jobgen("-h").out


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["submt"], "'submit'"),
        (["plan", "--clster", "x"], "--cluster"),
        (["cluster", "lss"], "'ls'"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(
    jobgen: Jobgen, words: list[str], meant: str
) -> None:
    said = jobgen(*words)
    assert said.code == 2
    assert said.out == ""
    assert meant in said.err
    assert "-h" in said.err


def test_global_flags_stand_before_or_after_the_verb(jobgen: Jobgen) -> None:
    before, after = jobgen("--json", "ls"), jobgen("ls", "--json")
    assert before.out == after.out
    assert json.loads(after.out)["schema"] == "jobgen/ls/1"


JOB = "name: a\nnodes: 1\ntime: 1h\nlauncher: plain\nrun: echo ${X}\n"


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_flags_need_no_word_of_click_on_where_they_stood(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    # click 8.4.0 knows the source of a value only after the callback that kept the flag has run
    monkeypatch.setattr(click.Context, "get_parameter_source", lambda *_: None)
    (tmp_path / "job.yaml").write_text(JOB + "vars: {X: one}\n")
    flags = ["--json", "--set", "X=two", "--set", "nodes=2"]
    if where == "environment":
        monkeypatch.setenv("JOBGEN_CLUSTER", "local")
    else:
        flags += ["-c", "local"]
    words = ["plan", "job.yaml"]
    said = jobgen(*flags, *words) if where == "before" else jobgen(*words, *flags)
    plan = json.loads(said.out)["data"]
    assert (plan["cluster"], plan["resources"]["nodes"]) == ("local", 2)
    assert "two" in json.dumps(plan)


def test_the_flag_nearest_to_the_end_wins_over_the_environment(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JOBGEN_CLUSTER", "gone")
    (tmp_path / "job.yaml").write_text(JOB + "vars: {X: one}\n")
    said = jobgen("-c", "nowhere", "plan", "job.yaml", "-c", "other", "-c", "local", "--json")
    assert json.loads(said.out)["data"]["cluster"] == "local"
    assert "gone" in jobgen("plan", "job.yaml").err
    assert "nowhere" in jobgen("-c", "nowhere", "plan", "job.yaml").err


def test_a_wrong_word_is_told_in_json_where_json_was_asked_for(jobgen: Jobgen) -> None:
    said = jobgen("plan", "--nope", "--json")
    envelope = json.loads(said.out)
    assert said.code == 2
    assert said.err == ""
    assert not envelope["ok"]
    assert envelope["error"]["exit"] == 2
    assert "--nope" in envelope["error"]["message"]


def test_an_unknown_job_is_exit_code_7(jobgen: Jobgen) -> None:
    said = jobgen("show", "nothing-1")
    assert said.code == 7
    assert said.out == ""
    assert "error: " in said.err


def test_the_version_says_all_that_a_report_needs(jobgen: Jobgen) -> None:
    said = jobgen("--version")
    assert said.code == 0
    assert said.out.startswith("jobgen 0.")
    assert sys.executable in said.out
    assert str(Path(entry.__file__).parents[1]) in said.out


def raising(error: BaseException) -> object:
    def main(*_: object, **__: object) -> None:
        raise error

    return main


def test_what_the_scheduler_said_is_shown_and_gives_its_exit_code(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ROOT, "invoke", raising(Refused("sbatch: error: Invalid account \x1b[2J")))
    said = jobgen("ls")
    assert said.code == 5
    assert said.err == "error: sbatch: error: Invalid account \n"


def test_an_interrupt_is_exit_code_130(jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ROOT, "invoke", raising(KeyboardInterrupt()))
    assert jobgen("ls").code == 130


def test_a_bug_is_reported_in_a_file_with_secrets_masked(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "tops3cretvalue")
    bug = ValueError("went wrong with tops3cretvalue and hf_abcdefghijkl and http://u:pw@host/")
    monkeypatch.setattr(ROOT, "invoke", raising(bug))
    said = jobgen("ls")
    assert said.code == 70
    assert said.err.startswith("error: a bug in jobgen: ValueError: went wrong with ***")
    report = Path(said.err.split()[-1])
    text = report.read_text()
    assert "Traceback" in text
    assert "jobgen ls" in text
    assert report.stat().st_mode & 0o777 == 0o600
    for secret in ("tops3cretvalue", "hf_abcdefghijkl", "u:pw"):
        assert secret not in text + said.err


def test_a_bug_with_no_place_to_write_is_still_told(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBGEN_STATE_HOME", "/proc/none")
    monkeypatch.setattr(ROOT, "invoke", raising(ValueError("odd")))
    said = jobgen("ls")
    assert said.code == 70
    assert "--debug" in said.err


HEAVY = ("pydantic", "paramiko", "rich", "jinja2", "yaml", "sqlite3", "torch", "pathspec")


def imported(words: list[str], cwd: Path) -> set[str]:
    code = (
        "import sys; from jobgen.cli.main import run; "
        f"run({words!r}); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={"HOME": str(cwd), "PYTHONPATH": str(Path(entry.__file__).parents[2])},
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["submit", "-h"], ["logs", "-h"]])
def test_help_imports_nothing_heavy(words: list[str], tmp_path: Path) -> None:
    assert imported(words, tmp_path).isdisjoint(HEAVY)


def test_ls_imports_nothing_heavy(tmp_path: Path) -> None:
    assert imported(["ls"], tmp_path).isdisjoint(set(HEAVY) - {"sqlite3"})


@pytest.mark.parametrize("words", [["lint"], ["plan"], ["render"], ["submit", "--dry-run"]])
def test_a_job_needs_the_reader_of_yaml_and_nothing_else_heavy(
    words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(
        "name: demo\nnodes: 2\ngpus_per_node: 8\ntime: 2h\nrun: train.py\ncluster: a100x16\n"
    )
    (tmp_path / "train.py").write_text("import torch\n")
    assert imported(words, tmp_path).isdisjoint(set(HEAVY) - {"yaml", "sqlite3"})


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    script = f"{sys.executable} -m jobgen -h | head -1; echo ${{PIPESTATUS[0]}} >&2"
    for _ in range(3):
        done = subprocess.run(
            ["bash", "-c", script],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": str(tmp_path),
                "PYTHONPATH": str(Path(entry.__file__).parents[2]),
            },
        )
        assert done.stderr.strip() in {"0", "141"}


def test_no_colour_leaves_a_pipe_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert "\x1b" not in process("show", "x", cwd=tmp_path).stderr
    assert "\x1b" in process("show", "x", "--color=always", cwd=tmp_path).stderr
    assert "\x1b" in process("show", "x", cwd=tmp_path, FORCE_COLOR="1").stderr
    assert "\x1b" not in process("show", "x", cwd=tmp_path, FORCE_COLOR="1", NO_COLOR="1").stderr
    assert "\x1b" not in process("show", "x", "--color=never", cwd=tmp_path, FORCE_COLOR="1").stderr


def test_the_program_speaks_under_any_locale(tmp_path: Path) -> None:
    done = process("logs", "ü→", cwd=tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.returncode == 7
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(jobgen: Jobgen, shell: str) -> None:
    assert "_JOBGEN_COMPLETE" in jobgen("completion", shell).out


def test_verbs_and_flags_complete(tmp_path: Path) -> None:
    done = process(
        cwd=tmp_path, _JOBGEN_COMPLETE="bash_complete", COMP_WORDS="jobgen su", COMP_CWORD="1"
    )
    assert done.stdout.split() == ["plain,submit"]
    assert done.stderr == ""


def test_no_name_that_a_shell_would_run_is_completed(tmp_path: Path) -> None:
    clusters = tmp_path / "clusters"
    clusters.mkdir()
    for name in ("a$(touch was-run)", "a`id`", "a b", "a;b", "a|b", "a&b", "a'b", "ab"):
        (clusters / f"{name}.yaml").write_text("name: a\n")
    words = {"COMP_WORDS": "jobgen plan -c a", "COMP_CWORD": "3"}
    done = process(cwd=tmp_path, _JOBGEN_COMPLETE="bash_complete", **words)
    names = {line.partition(",")[2] for line in done.stdout.splitlines()}
    assert "ab" in names
    assert "a100x16" in names
    assert all(name.replace("-", "").replace(".", "").isalnum() for name in names), names


@pytest.mark.parametrize(
    "words", [("show", "a-1"), ("logs", "a-1"), ("cluster", "ls"), ("schema", "job")]
)
def test_a_verb_that_reads_no_job_file_refuses_set(jobgen: Jobgen, words: tuple[str, ...]) -> None:
    said = jobgen(*words, "--set", "nodes=2")
    assert said.code == 2
    assert "--set has no effect here" in said.err
