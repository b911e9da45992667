"""The job that measures a user's own model: what it requests, and what its report may hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.measurements import OwnModel
from jobgen.app.measuring import explain_failure
from jobgen.app.measuring_jobs import LIMIT, MeasuringJob, parse_report, prepare_measuring
from jobgen.app.shared_link import share_connection
from jobgen.app.world import World
from jobgen.errors import CheckFailed, Invalid, Missing, Unreachable
from jobgen.model.record import Login
from tests.app.conftest import Link

UPLOADED = ("train.py", "job.yaml")
TRACE = {"mode": "fp32", "recompute": "none", "kept": 1, "forward": 2, "points": [[1, 3, 4]]}
REPORT: dict[str, Any] = {
    "torch": "2.13.0",
    "traces": [{**TRACE, "after": 5}],
    "params": 9,
    "trained": 9,
    "width": 4,
    "buffers": 0,
    "units": [],
    "micro": 4,
    "files": {"train.py": "ab" * 32},
}
MODEL = OwnModel("train.py:build", {"model": "train.py:build", "workdir": "/src"}, Path("kept"))


@pytest.fixture
def prepared(world: World) -> Callable[..., MeasuringJob]:
    """The job that measures the model of a job on two nodes of eight GPUs."""

    def prepare(*train: str, sets: tuple[str, ...] = (), **words: Any) -> MeasuringJob:
        source = world.cwd / "src"
        (source / "train.py").write_text("def build(): pass\ndef batch(): pass\n")
        keys = ("model: train.py:build", "batch: train.py:batch", "framework: none", *train)
        lines = ["name: own", "nodes: 2", "gpus_per_node: 8", "time: 1h", "run: train.py"]
        lines += ["setup: module load torch", "slurm: {partition: cpu, begin: now+1hour}"]
        lines += ["env: {HF_HOME: /models}", "train:", *(f"  {key}" for key in keys)]
        (source / "job.yaml").write_text("\n".join([*lines, ""]))
        return prepare_measuring(world, source / "job.yaml", "a100x16", sets, **words)

    return prepare


def read_request(measuring: MeasuringJob) -> Any:
    return json.loads(measuring.ready.bundle["measure-0.json"].content)


def test_it_takes_one_task_and_the_environment_of_the_job(
    prepared: Callable[..., MeasuringJob],
) -> None:
    measuring = prepared("strategy: fsdp2", "precision: fp32")
    plan, bundle = measuring.ready.plan, measuring.ready.bundle
    assert (plan.shape.nodes, plan.shape.ranks_per_node, plan.shape.gpus_per_node) == (1, 1, 0)
    words = {name: setting.value for name, setting in plan.directives.items()}
    assert (words["partition"], words["mem"]) == ("cpu", "8G")
    assert "begin" not in words
    assert [line.value for line in plan.setup] == ["module load torch"]
    assert plan.env["HF_HOME"].value == "/models"
    assert bundle["measure_model/__main__.py"].content
    assert prepared("strategy: ddp", gpus=1).ready.plan.shape.gpus_per_node == 1
    changed = prepared("strategy: ddp", sets=("setup=module load other", "slurm.partition=fast"))
    assert [line.value for line in changed.ready.plan.setup] == ["module load other"]
    assert changed.ready.plan.directives["partition"].value == "fast"


@pytest.mark.parametrize(
    ("keys", "shards", "mixed"),
    [
        (("strategy: fsdp2", "precision: fp32"), 16, False),
        (("strategy: {type: fsdp2, shard: 8}",), 8, True),
        (("strategy: ddp",), 0, False),
        (("strategy: auto",), 0, False),
    ],
)
def test_ranks_of_fsdp2_are_measured_where_the_job_names_it(
    prepared: Callable[..., MeasuringJob], keys: tuple[str, ...], shards: int, mixed: bool
) -> None:
    request = read_request(prepared(*keys))
    assert (request["shards"], request["mixed_precision"], request["workdir"]) == (
        shards,
        mixed,
        "",
    )


def test_a_job_without_functions_has_nothing_to_measure(world: World) -> None:
    (world.cwd / "job.yaml").write_text("name: a\nnodes: 1\ntime: 1h\nrun: train.py\n")
    with pytest.raises(Missing, match="nothing to measure"):
        prepare_measuring(world, world.cwd / "job.yaml", "a100x16", ())


def test_a_report_names_uploaded_files_alone() -> None:
    files = {**REPORT["files"], "/etc/passwd": "00", "../key": "00", "made.py": "00"}
    content = json.dumps({**REPORT, "files": files}).encode()
    assert parse_report(MODEL, content, UPLOADED) == REPORT


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"failed"',
        b"[" * 100_000,
        b'{"params": ' + b"9" * 5000 + b"}",
        json.dumps(REPORT).encode()[:-1],
        json.dumps({**REPORT, "pad": "a" * LIMIT}).encode()[:LIMIT],
        *(
            json.dumps({**REPORT, **change}).encode()
            for change in (
                {"files": []},
                {"files": {}},
                {"files": {"/etc/passwd": "00"}},
                {"files": {"train.py": 1}},
                {"params": -1},
                {"params": 1e300},
                {"micro": None},
                {"units": {}},
                {"traces": [{**TRACE, "points": [[float("nan"), 0, 0]]}]},
            )
        ),
        b'{"failed": "program", "place": 7}',
        b'{"failed": "program", "place": ["train.py"]}',
        b'{"failed": "program", "place": ["train.py", "x"]}',
        b'{"failed": "program", "place": ["train.py", Infinity]}',
        b'{"failed": "program", "place": [["train.py"], 1]}',
    ],
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    with pytest.raises(CheckFailed, match=r"report on train\.py:build cannot be read"):
        parse_report(MODEL, content, frozenset(UPLOADED))


def test_a_failure_shows_no_other_file(world: World, prepared: Callable[..., MeasuringJob]) -> None:
    secret = world.cwd / "secret"
    secret.write_text("canary\n")
    spec = prepared("strategy: ddp").spec
    for place in ([str(secret), 1], ["../secret", 1], ["train.py", 10**9], ["train.py", -1]):
        told = {"failed": "program", "message": "m\x1b[2J", "place": place, "key": "batch"}
        report = parse_report(MODEL, json.dumps(told).encode(), frozenset(UPLOADED))
        error = explain_failure(world, spec, MODEL, report, "")
        assert isinstance(error, Invalid)
        assert not [label for label in world.texts if "secret" in label]


def test_the_nearest_function_is_named(world: World, prepared: Callable[..., MeasuringJob]) -> None:
    spec = prepared("strategy: ddp").spec
    told = {"failed": "function", "message": "none", "key": "model", "known": ["biuld", 7]}
    report = parse_report(MODEL, json.dumps(told).encode(), UPLOADED)
    (problem,) = explain_failure(world, spec, MODEL, report, "").problems
    assert problem.hint == "did you mean biuld?"
    for odd in ({"known": None}, {"key": []}, {"key": "x"}):
        report = parse_report(MODEL, json.dumps({**told, **odd}).encode(), UPLOADED)
        assert explain_failure(world, spec, MODEL, report, "").problems


def test_one_connection_serves_all_steps(world: World, link: Link) -> None:
    login = Login("local")
    with share_connection(world) as shared:
        for _ in range(3):
            with shared.connect(login) as transport:
                assert transport.call("echo a").out == b"a\n"
        assert link.dialled == 1
        link.cut = True
        with pytest.raises(Unreachable), shared.connect(login) as transport:
            transport.call("echo a")
        link.cut = False
        with shared.connect(login) as transport:
            assert transport.call("echo a").out == b"a\n"
        assert link.dialled == 2
