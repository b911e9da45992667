"""The screens of the benches, and the words of their command lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.benching.allreduce import Judged
from jobgen.bench import formulas, node_pairs
from jobgen.bench.results import Bench, PairResult, Point
from jobgen.bench.scaling import ScalingRun, compute_scaling
from jobgen.bench.verdict import BenchVerdict
from jobgen.cli.main import run
from jobgen.cli.output import Ink
from jobgen.cli.page import bench_pages as pages
from jobgen.cli.screens import bench as screens
from jobgen.cli.screens import scaled
from jobgen.fabric.limits import Limit
from jobgen.model.record import Login, RunRecord, Site

EVIL = "n1\x1b]0;owned\x07<script>"
RECORD = RunRecord(
    "t" * 26,
    "bench-allreduce-1",
    "bench-allreduce",
    Site("c", "slurm", Login("local"), "/r"),
    "d",
    0.0,
)


def point(size: int, rate: float, ranks: int = 2) -> Point:
    seconds = size / rate
    return Point("all_reduce", size, ranks, seconds, seconds * 0.9, seconds * 1.1, 5)


@pytest.fixture
def judged() -> Judged:
    points = tuple(point(1 << n, 1e8 * 1.2 ** (n - 16)) for n in range(16, 27, 2))
    faced = (
        PairResult(EVIL, "n2", point(1 << 20, 1e8)),
        PairResult(EVIL, "n3", point(1 << 20, 1e8)),
    )
    faced += (PairResult("n2", "n3", point(1 << 20, 1e9)),)
    bench = Bench(
        ranks=6,
        hosts=(EVIL, "n2", "n3"),
        backend="gloo",
        device="cpu",
        versions=(("torch", "2.13"),),
        points=points,
        pairs=faced,
        skipped=(("reduce_scatter", "gloo cannot"),),
        ended=True,
    )
    verdict = BenchVerdict("bad", "60% of the limit: as slow as that", "do this")
    limit = Limit("network", 1.25e9, "1 x 10 Gb/s per node, one way", 1e9, "a source")
    line = formulas.fit([(p.bytes, p.median) for p in points])
    nodes = node_pairs.judge_nodes(faced)
    return Judged(RECORD, bench, limit, (("all_reduce", verdict),), line, nodes, None)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_and_says_what_it_means(judged: Judged, width: int) -> None:
    text = screens.screen(judged, Ink(width=width))
    assert all(len(line) <= width for line in text.splitlines()), text
    for said in ("limit 1.25 GB/s", "60% of the limit", "do this", "slow: n1", "gloo cannot"):
        assert said in " ".join(text.split()), text
    assert "\x1b" not in text
    row = next(line for line in text.splitlines() if line.startswith("64.0 MiB"))
    assert "50%" in row


def test_an_answer_is_compared_with_a_former_one(judged: Judged) -> None:
    before = json.loads(json.dumps(screens.data(judged)))
    for one in before["points"]:
        one["busbw_bytes_s"] *= 2
    text = screens.screen(judged, Ink(width=100), before)
    assert "BEFORE" in text
    assert text.count("-50%") == len(judged.bench.points)
    assert (
        screens.screen(judged, Ink(width=100), {"points": [1, {"bytes": "x"}]}).count("BEFORE") == 0
    )


@pytest.mark.parametrize("rate", [10**400, True, float("nan"), float("inf"), -1])
def test_a_former_rate_that_is_none_is_passed_over(judged: Judged, rate: float) -> None:
    points = [{"op": "all_reduce", "bytes": 1 << 20, "busbw_bytes_s": rate}]
    assert screens.read_former({"points": points}, "all_reduce") == {}
    rows = {"unit": "samples", "sizes": [{"nodes": 1, "rate_per_s": rate}]}
    assert scaled.read_former(rows, "samples") == {}


def test_the_page_needs_nothing_beside_it(judged: Judged) -> None:
    page = pages.write_allreduce_page(judged)
    assert "<script" not in page
    assert not re.search(r'(src|href)="?https?://', page)
    assert page.count("<circle") == len(judged.bench.points)
    assert "60% of the limit" in page


def told(nodes: int, step: float, **more: float) -> ScalingRun:
    report = {"step_s": step, "step_p10_s": step * 0.9, "step_p90_s": step * 1.1}
    report |= {"samples_per_step": 8.0 * nodes, "data_s": 0.0, "comm_s": 0.0, **more}
    return ScalingRun(nodes, 8 * nodes, f"train-{nodes}", "COMPLETED", report)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_scaling_is_drawn_against_the_ideal(width: int) -> None:
    found = compute_scaling([told(1, 1.0), told(2, 1.1, comm_s=0.1), told(4, 2.0, comm_s=0.9)])
    text = scaled.screen(found, Ink(width=width))
    assert all(len(line) <= width for line in text.splitlines()), text
    assert re.search(r"^4 +32 +16 +32 +50% +20% +2 s", text, re.MULTILINE), text
    assert "4 nodes: 45% of each step is exposed communication" in " ".join(text.split())
    before = scaled.data(found, [])
    again = scaled.screen(found, Ink(width=width), before)
    assert again.count("+0%") == 3
    assert pages.write_scaling_page(found, "t").count("<circle") == 3


def test_scaling_that_nothing_holds_back_says_so() -> None:
    text = scaled.screen(compute_scaling([told(1, 1.0), told(2, 1.01)]), Ink(width=80))
    assert "no bottleneck found" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["allreduce", "--sizes", "2M..1M"], "backwards"),
        (["allreduce", "--sizes", "many"], "1M..1G"),
        (["allreduce", "--ops", "alltoall"], "allreduce, allgather, reducescatter"),
        (["allreduce", "--read", "x-1", "--nodes", "0"], "not in the range"),
        (["scaling"], "no job.yaml in this folder"),
        (["allreduce"], "no cluster selected"),
        (["allreduce", "-c", "a100x16", "--pairs", "--nodes", "1"], "--pairs needs two nodes"),
    ],
)
def test_words_that_do_not_fit(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JOBGEN_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("JOBGEN_CLUSTER", raising=False)
    assert run(["bench", *words]) in (2, 7)
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_former_answer_that_is_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    from jobgen.cli.benching import read_former
    from jobgen.errors import Usage

    for text in ("", "[]", "{}", '{"data": 1}', "[" * 100_000):
        path = tmp_path / "before.json"
        path.write_text(text)
        with pytest.raises(Usage):
            read_former(path)
    with pytest.raises(Usage):
        read_former(tmp_path / "none")


def test_a_dry_run_sends_nothing_and_the_job_can_be_written_down(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("JOBGEN_STATE_HOME", str(tmp_path / "state"))
    assert run(["bench", "allreduce", "-c", "a100x16", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "WOULD RUN" in shown
    assert "NCCL_NET" in shown
    assert not (tmp_path / "state").exists()
    folder = tmp_path / "bench"
    assert run(["bench", "allreduce", "-c", "a100x16", "--write", str(folder)]) == 0
    capsys.readouterr()
    assert run(["render", str(folder / "job.yaml"), "-c", "a100x16"]) == 0
    assert "bench_collectives" in (folder / "job.yaml").read_text()
    assert run(["bench", "allreduce", "-c", "a100x16", "--write", str(folder)]) == 2
