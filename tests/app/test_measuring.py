"""A user's own model: measured once, used by later plans, and not any more when it changes."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app.measuring import measure_models
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Invalid, Missing
from jobgen.model.decision import PlanCheck
from jobgen.resolve.measured import UNMEASURED
from tests.cluster.texts import FOLDER_OF_PYTHON

Job = Callable[..., Path]
LARGE = 3 * 8192 * 8192
"""Parameters of the program's model."""
PROGRAM = """\
import json
from pathlib import Path

import torch
from layers import build_layers
from torch import nn

SIZES = json.loads(Path(__file__).with_name("sizes.json").read_text())

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(build_layers(SIZES["layers"]))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.square().mean()

def build_model(): return Net()
def example_batch(micro_batch): return torch.randn(micro_batch, 8192)
def example_text(): return "text"
"""
LAYERS = """\
from torch import nn

def build_layers(count): return [nn.Linear(8192, 8192, bias=False) for _ in range(count)]
"""
CLUSTER = "a100x16"


@pytest.fixture
def here(world: World) -> World:
    """The world with this Python as the program's."""
    folder = world.home / "bin"
    folder.mkdir()
    quick = f"PYTHONPATH={shlex.quote(str(FOLDER_OF_PYTHON))}"
    (folder / "python").write_text(f'#!/bin/sh\n{quick} exec {sys.executable} "$@"\n')
    (folder / "python").chmod(0o755)
    writes = {"PYTHONDONTWRITEBYTECODE": ""}
    return replace(world, environ={**os.environ, **world.environ, "PATH": str(folder), **writes})


@pytest.fixture
def own(here: World, job: Job) -> Callable[..., Path]:
    """Writes the program, and a job that trains its model in fp32 on two nodes of eight GPUs."""

    def write(*train: str, batch: str = "example_batch") -> Path:
        source = here.cwd / "src"
        (source / "train.py").write_text(PROGRAM)
        (source / "layers.py").write_text(LAYERS)
        (source / "sizes.json").write_text('{"layers": 3}')
        (source / "README").write_text("not read")
        keys = ["precision: fp32", "framework: none", "micro_batch: 4", *train]
        named = [f"  {key}" for key in ("model: train.py:build_model", f"batch: train.py:{batch}")]
        lines = ["gpus_per_node: 8", "train:", *named, *(f"  {key}" for key in keys)]
        path = job("train.py", *lines)
        path.write_text(path.read_text().replace("launcher: srun\n", ""))
        return path

    return write


def plan(world: World, path: Path, *sets: str) -> PreparedJob:
    return prepare(world, path, CLUSTER, sets)


def find_warning(ready: PreparedJob) -> PlanCheck | None:
    return next((check for check in ready.plan.checks if check.code == UNMEASURED), None)


def test_a_measured_model_is_planned_until_a_file_of_it_changes(
    here: World, own: Callable[..., Path]
) -> None:
    path = own("strategy: fsdp2")
    unmeasured = plan(here, path)
    warning = find_warning(unmeasured)
    assert warning is not None
    assert warning.message.endswith("train.py:build_model is not measured yet")
    assert warning.hint == f"measure it: jobgen plan src/job.yaml -c {CLUSTER} --measure"
    assert unmeasured.plan.estimate is None

    measure_models(here, path, CLUSTER)
    request = plan(here, path).planner_request
    assert request is not None
    assert request.ask is not None
    model = request.ask.measured
    assert model is not None
    assert (model.params, len(model.units), model.micro) == (LARGE, 3, 4)
    assert model.sharded is not None
    assert model.sharded.ranks == 8

    ready = plan(here, path)
    assert find_warning(ready) is None
    estimate = ready.plan.estimate
    assert estimate is not None
    # what one rank of FSDP2 was seen to allocate, without the optimizer's foreach temporary
    assert estimate.allocated == pytest.approx(model.sharded.peak, rel=0.05)

    assert not (here.cwd / "src" / "__pycache__").exists()  # it would be uploaded
    (report,) = (here.state / "measured").rglob("*.json")
    assert set(json.loads(report.read_text())["files"]) == {"train.py", "layers.py", "sizes.json"}
    other = find_warning(plan(here, path, "train.micro_batch=8"))
    assert other is not None
    assert other.message.endswith("is not measured with this micro_batch")
    both = find_warning(plan(here, path, "train.seq_len=8", "train.micro_batch=8"))
    assert both is not None
    assert both.message.endswith("is not measured with this micro_batch and seq_len")
    kept = json.loads(report.read_text())
    report.write_text(json.dumps({**kept, "request": None}))  # as earlier versions kept it
    other = find_warning(plan(here, path, "train.micro_batch=8"))
    assert other is not None
    assert other.message.endswith("with this precision, micro_batch, seq_len and wrap")
    report.write_text(json.dumps(kept))
    (here.cwd / "src" / "README").write_text("changed")
    assert find_warning(plan(here, path)) is None
    for name in ("sizes.json", "layers.py"):
        file = here.cwd / "src" / name
        before = file.read_text()
        file.write_text(before + "\n")
        changed = find_warning(plan(here, path))
        assert changed is not None
        assert f"{name} has changed since train.py:build_model was measured" in changed.message
        file.write_text(before)
    assert find_warning(plan(here, path)) is None

    refuse_what_is_not_measured(here, path)
    for broken in ('{"files": {}, "params": -1}', "{"):
        report.write_text(broken)
        warning = find_warning(plan(here, path))
        assert warning is not None
        assert warning.hint.startswith("measure it: ") == (broken == "{")


def refuse_what_is_not_measured(here: World, path: Path) -> None:
    """Keys that no measurement can show have a message each."""
    for key, words in {
        "lora=8": "builds its own adapters: omit lora",
        "activation_checkpointing=selective": "is measured in the model's own code: set none",
        "tp=2": "no measurement shows which matrices of train.py:build_model tp divides: omit tp",
    }.items():
        warning = find_warning(plan(here, path, f"train.{key}"))
        assert warning is not None, key
        assert words in warning.message
        assert warning.place is not None
        assert warning.place.file == f"--set train.{key.partition('=')[0]}"


def test_a_strategy_is_chosen_only_for_a_measured_model(
    here: World, own: Callable[..., Path]
) -> None:
    with pytest.raises(Invalid) as caught:
        plan(here, own("strategy: auto"))
    (problem,) = caught.value.problems
    assert problem.code == UNMEASURED
    assert problem.hint == f"measure it: jobgen plan src/job.yaml -c {CLUSTER} --measure"


def test_a_failure_names_the_key_or_the_python(here: World, own: Callable[..., Path]) -> None:
    path = own("strategy: ddp", batch="example_text")
    with pytest.raises(Invalid) as caught:
        measure_models(here, path, CLUSTER)
    (problem,) = caught.value.problems
    assert "train.py:example_text returned str without tensors" in problem.message
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == ("src/job.yaml", 7)
    python = here.home / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    with pytest.raises(CheckFailed) as without:
        measure_models(here, path, CLUSTER)
    (problem,) = without.value.problems
    assert "torch cannot be imported: ModuleNotFoundError" in problem.message
    assert str(python) in problem.hint
    python.write_text("#!/bin/sh\necho killed by the site\nexit 9\n")
    with pytest.raises(CheckFailed) as ended:
        measure_models(here, path, CLUSTER)
    (problem,) = ended.value.problems
    assert (problem.message, problem.hint) == (
        "measuring train.py:build_model ended with exit code 9",
        "its last line: killed by the site",
    )
    python.unlink()
    with pytest.raises(Missing, match="no python on PATH"):
        measure_models(here, path, CLUSTER)


@pytest.mark.parametrize(
    ("new", "says", "hint", "place"),
    [
        ("def example_text(seq_len):", "needs seq_len", "set it under", 7),
        ("def example_text(size):", "needs size", "give the others a", 7),
        ("def example_text(:", "SyntaxError", "correct it; or activate the Python", None),
    ],
)
def test_what_a_function_needs_and_where_it_ends(
    here: World,
    own: Callable[..., Path],
    new: str,
    says: str,
    hint: str,
    place: int | None,
) -> None:
    path = own("strategy: ddp", batch="example_text")
    program = here.cwd / "src" / "train.py"
    text, old = program.read_text(), "def example_text():"
    assert old in text
    program.write_text(text.replace(old, new))
    with pytest.raises(Invalid) as caught:
        measure_models(here, path, CLUSTER)
    (problem,) = caught.value.problems
    assert says in problem.message
    assert hint in problem.hint
    line = text[: text.index(old)].count("\n") + 1
    where = ("src/job.yaml", place) if place else ("src/train.py", line)
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == where


@pytest.mark.parametrize(
    ("old", "new", "under", "hint"),
    [
        ("x.square().mean()", "x.mean().item()", "x.mean().item()", "up to 262,144 elements"),
        ("x.square().mean()", "x.mean() + [1]", "x.mean() + [1]", "correct the line, then measure"),
        ("x.square().mean()", "x.square().mean().detach()", None, "return the loss of one micro"),
        ("return Net()", "raise OSError()", "raise OSError()", "the functions run alone"),
        (
            "return Net()",
            "assert None, 'no GPU'",
            "assert None, 'no GPU'",
            "move that out of build",
        ),
        (
            "return Net()",
            "import os; os.environ['RANK']",
            "os.environ['RANK']",
            "it is set in a job",
        ),
        ("forward(self, x)", "forward(self, x, y)", None, "must return what forward takes: x, y"),
        ("build_model", "build_modl", None, "did you mean build_modl?"),
        ("import torch\n", "import torhc\n", "import torhc", "activate the environment"),
        ("return Net()", "return 3", None, "jobgen explain train.model"),
    ],
)
def test_a_caret_stands_under_what_failed(
    here: World, own: Callable[..., Path], old: str, new: str, under: str | None, hint: str
) -> None:
    """Without a line of the program, under the function's name in the job."""
    path = own("strategy: ddp")
    program = here.cwd / "src" / "train.py"
    program.write_text(program.read_text().replace(old, new))
    with pytest.raises(Invalid) as caught:
        measure_models(here, path, CLUSTER)
    (problem,) = caught.value.problems
    assert hint in problem.hint
    place = problem.place
    assert place is not None
    file = program if under else path
    assert place.file == f"src/{file.name}"
    line = file.read_text().split("\n")[place.line - 1]
    name = "train.py:example_batch" if "forward" in old else "train.py:build_model"
    assert line[place.col - 1 : place.end_col - 1] == (under or name)


def test_keys_that_no_measurement_shows_are_not_measured_again(
    here: World, own: Callable[..., Path]
) -> None:
    path = own("strategy: auto")
    measure_models(here, path, CLUSTER)
    with pytest.raises(Invalid) as caught:
        plan(here, path, "train.lora=8")
    (problem,) = caught.value.problems
    assert (problem.code, problem.hint) == (UNMEASURED, "")


def test_a_model_of_the_catalogue_is_not_measured(here: World, own: Callable[..., Path]) -> None:
    path = own()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "train.py:" not in line))
    with pytest.raises(Missing, match=r"train\.model names no function"):
        measure_models(here, path, CLUSTER)


@pytest.mark.parametrize(
    ("dropped", "words"), [("batch", "train.batch is not set"), ("model", "a function builds")]
)
def test_both_functions_are_needed(
    here: World, own: Callable[..., Path], dropped: str, words: str
) -> None:
    path = own()
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if f"  {dropped}: train.py" not in line))
    with pytest.raises(Invalid) as caught:
        plan(here, path)
    errors = [problem for problem in caught.value.problems if problem.severity == "error"]
    assert [(each.code, words in each.message) for each in errors] == [("J138", True)]
