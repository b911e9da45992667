"""Templates of a person's own: used, named, kept within limits."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from jobgen.app import overriding
from jobgen.app.overriding import override_templates
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.world import World
from jobgen.catalog import Catalog, TemplateFile
from jobgen.errors import Diagnostic, Invalid
from jobgen.render import render
from tests.resolve.made import job as text
from tests.resolve.made import plan
from tests.waiting import HANG

Job = Callable[..., Path]
Put = Callable[..., Path]
PROGRAM = "#!/bin/bash\n# mine\n{{ text }}\n"


@pytest.fixture
def put(world: World) -> Put:
    """Writes a template beside the job, or in another folder."""

    def write(text: str, name: str = "program.sh.j2", folder: Path | None = None) -> Path:
        path = (folder or world.cwd / "src") / "templates" / "slurm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def ready(world: World, job: Job) -> Callable[[], PreparedJob]:
    path = job("hostname")
    return lambda: prepare(world, path, "here", with_upload=False)


@pytest.fixture
def refused(ready: Callable[[], PreparedJob]) -> Callable[[], Diagnostic]:
    def raises() -> Diagnostic:
        with pytest.raises(Invalid) as caught:
            ready()
        (problem,) = caught.value.problems
        return problem

    return raises


def test_a_template_beside_the_job_is_used_and_named(
    ready: Callable[[], PreparedJob], put: Put
) -> None:
    before = ready()
    assert before.plan.notes == ()
    put(PROGRAM)
    found = ready()
    assert found.bundle["program.sh"].content == b"#!/bin/bash\n# mine\nexec hostname\n"
    assert found.bundle["node.sh"] == before.bundle["node.sh"]
    (note,) = found.plan.notes
    digest = sha256(PROGRAM.encode()).hexdigest()
    assert (note.code, note.severity) == ("J240", "note")
    assert str(note.place) == "src/templates/slurm/program.sh.j2"
    assert f"sha256 {digest[:12]}" in note.message
    data = json.loads(found.bundle["plan.json"].content)
    assert data["sources"]["template program.sh.j2"] == digest


def test_the_files_do_not_say_where_the_template_lies(
    world: World, ready: Callable[[], PreparedJob], put: Put, tmp_path: Path
) -> None:
    digests = set()
    for folder in (world.cwd / "src", world.cwd, world.config):
        path = put(PROGRAM, folder=folder)
        found = ready()
        digests.add(found.bundle.digest)
        assert not [f for f in found.bundle.files if str(tmp_path).encode() in f.content]
        path.unlink()
    assert len(digests) == 1


def test_a_copy_that_was_not_changed_changes_nothing(
    ready: Callable[[], PreparedJob], put: Put
) -> None:
    put(Catalog(()).read_templates("slurm")["program.sh.j2"])
    assert ready().plan.notes == ()


def test_the_nearest_template_of_a_name_wins(
    world: World, ready: Callable[[], PreparedJob], put: Put
) -> None:
    put("own", folder=world.config)
    assert ready().bundle["program.sh"].content == b"own"
    put("here", folder=world.cwd)
    assert ready().bundle["program.sh"].content == b"here"
    put("beside the job")
    assert ready().bundle["program.sh"].content == b"beside the job"


def test_what_is_laid_out_apart_has_the_same_bytes(world: World) -> None:
    shipped = Catalog(()).read_templates("slurm")
    own = [TemplateFile(name, text, name) for name, text in shipped.items()]
    for made in (plan(), plan(text(run="train.py \u00fc '\U0001f600'", env="{A: '{{ 7*7 }}'}"))):
        apart, bundle = override_templates(world, made, shipped, own)
        here = render(made._replace(sources=apart.sources), shipped)
        assert bundle.digest == here.digest


def test_a_template_may_include_one_of_its_own(ready: Callable[[], PreparedJob], put: Put) -> None:
    put('one\n{% include "_mine.j2" %}')
    put("two {{ name }}", "_mine.j2")
    found = ready()
    assert found.bundle["program.sh"].content == b"one\ntwo probe"
    assert [n.message.rpartition(") ")[2] for n in found.plan.notes] == [
        "is used by the templates beside it",
        "is used instead of jobgen's own program.sh.j2",
    ]


def test_a_template_that_nothing_uses_is_refused(
    refused: Callable[[], Diagnostic], put: Put
) -> None:
    put(PROGRAM, "progam.sh.j2")
    problem = refused()
    assert (problem.code, str(problem.place)) == ("J242", "src/templates/slurm/progam.sh.j2")
    assert problem.hint.startswith("did you mean program.sh.j2? there are: ")


def test_a_template_that_holds_a_token_is_refused(
    refused: Callable[[], Diagnostic], put: Put
) -> None:
    put("one\nexport HF_TOKEN=hf_" + "aB3dE5gH7j" * 4)
    problem = refused()
    assert (problem.code, str(problem.place)) == ("J197", "src/templates/slurm/program.sh.j2:2")


def test_other_files_named_templates_are_not_looked_at(
    world: World, ready: Callable[[], PreparedJob]
) -> None:
    (world.cwd / "src" / "templates" / "slurm" / "x.j2").mkdir(parents=True)
    (world.cwd / "src" / "templates" / "index.html.j2").write_text("{{ broken")
    (world.cwd / "src" / "templates" / "slurm" / "README.md").write_text("{{ broken")
    assert ready().plan.notes == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("one\n{{ wrold }}\n", 2, "'wrold' is undefined"),
        ("one\ntwo\n{% if %}\n", 3, "Expected an expression"),
        ("{% nonsense %}", 1, "unknown tag 'nonsense'"),
        ("\n{% include 'nowhere.j2' %}", 2, "there is no template 'nowhere.j2'"),
        ("\n\n{{ ''.__class__ }}", 3, "unsafe"),
        ("\n{{ env }}", 2, "list is not text"),
        ("{{ 1 // 0 }}", 1, "ZeroDivisionError"),
        ("{{ [1, 2] | random }}", 1, "random"),
        ("{{ lipsum() }}", 1, "'lipsum' is undefined"),
        ("{% include 'program.sh.j2' %}", 1, "RecursionError"),
        ("\n{% for i in range(10**9) %}{% endfor %}", 2, "Range too big"),
    ],
)
def test_a_mistake_is_told_with_its_place(
    refused: Callable[[], Diagnostic], put: Put, text: str, line: int, words: str
) -> None:
    put(text)
    problem = refused()
    assert problem.code == "J241"
    assert problem.place is not None
    assert problem.place.file == "src/templates/slurm/program.sh.j2"
    assert problem.place.line == line
    assert words in problem.message


def test_the_name_that_was_meant_is_told(refused: Callable[[], Diagnostic], put: Put) -> None:
    put("{{ wrold }}")
    told = "did you mean world? a template sees: all_cpus, array, before, "
    assert refused().hint.startswith(told)


ROUNDS = "{% for i in range(99999) %}"
ENDLESS = f"\n{ROUNDS}{ROUNDS}{ROUNDS}{{% endfor %}}{{% endfor %}}{{% endfor %}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ENDLESS, "more than 1 s of the processor: is there a loop without an end?"),
        ("\n{{ 'x' * 200000000 }}", ""),
        ("\n{{ 'x' * 2000000 }}", "more than 1 MiB of text"),
        ("\n{{ 'x' * 10000000000 }}", "more than 256 MiB of memory"),
        (f"\n{ROUNDS}{{{{ 'x' * 999999 }}}}{{% endfor %}}", "more than 256 MiB of memory"),
        ("\n{{ 9 ** (9 ** 9) }}", "too much time or memory"),
    ],
)
def test_a_template_that_does_not_come_to_an_end_is_stopped(
    refused: Callable[[], Diagnostic],
    monkeypatch: pytest.MonkeyPatch,
    put: Put,
    text: str,
    words: str,
) -> None:
    """By its own limits of processor time and memory, long before the time on the clock is up."""
    monkeypatch.setattr(overriding, "SECONDS", HANG)
    put(text)
    problem = refused()
    assert problem.code == "J241"
    assert str(problem.place).startswith("src/templates/slurm/program.sh.j2")
    assert words in problem.message


def test_a_process_that_only_sleeps_is_stopped_too(
    refused: Callable[[], Diagnostic], monkeypatch: pytest.MonkeyPatch, put: Put
) -> None:
    monkeypatch.setattr(overriding, "SECONDS", 0.1)
    monkeypatch.setattr(overriding, "_START", f"import time; time.sleep({HANG})")
    put(PROGRAM)
    assert "too much time or memory" in refused().message


def test_a_template_is_given_nothing_of_the_environment(
    ready: Callable[[], PreparedJob], monkeypatch: pytest.MonkeyPatch, put: Put
) -> None:
    """The interpreter that lays it out is called with nothing but what it needs to start."""
    monkeypatch.setattr(
        overriding,
        "_START",
        "import sys, json, os; sys.stdin.buffer.read(); "
        "print(json.dumps({'message': ' '.join(sorted(os.environ))}))",
    )
    put(PROGRAM)
    with pytest.raises(Invalid) as caught:
        ready()
    assert set(caught.value.problems[0].message.split()) <= {"LC_CTYPE", "LD_LIBRARY_PATH"}


def test_bytes_that_are_no_text_are_refused(refused: Callable[[], Diagnostic], put: Put) -> None:
    put("").write_bytes(b"\xff")
    assert refused().message == "this is no UTF-8 text"


def test_without_a_template_of_ones_own_nothing_more_is_imported(
    ready: Callable[[], PreparedJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("overriding", "confined"):
        monkeypatch.delitem(sys.modules, f"jobgen.app.{name}", raising=False)
    ready()
    assert not {"jobgen.app.overriding", "jobgen.app.confined"} & set(sys.modules)
