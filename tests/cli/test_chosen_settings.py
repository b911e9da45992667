"""``--variant`` and variables without a default, on the command line."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Jobgen

JOB = """\
name: x
run: train.py --data ${DATA}
nodes: 2
gpus_per_node: 8
time: 1h
launcher: torchrun
setup: source env.sh
vars: {DATA: {required: folder of the tokens}}
variants: {small: {nodes: 1, vars: {DATA: /d}}}
"""


def test_variant_is_chosen_and_the_next_command_keeps_it(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    said = jobgen("plan", "-c", "a100x16", "--variant", "small")
    assert said.code == 0
    assert said.out.startswith("x on a100x16: 1 node")
    assert said.out.rstrip().endswith("Next: jobgen submit job.yaml -c a100x16 --set variant=small")
    rendered = jobgen("render", "-c", "a100x16", "--variant", "small").out
    assert "# x on a100x16: 1 node x 8" in rendered
    tried = jobgen("submit", "-n", "-c", "a100x16", "--variant", "small").out
    assert tried.startswith("x on a100x16: 1 node")


def test_what_is_required_is_named_where_the_job_is_used(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    said = jobgen("plan", "-c", "a100x16")
    assert said.code == 3
    assert "job.yaml:8:14: error[J167]: DATA is not set: folder of the tokens" in said.err
    assert jobgen("plan", "-c", "a100x16", "--set", "DATA=/d").code == 0


def test_lint_checks_a_job_whose_values_are_not_given(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    for text in (JOB, f"cluster: a100x16\n{JOB}"):
        (tmp_path / "job.yaml").write_text(text)
        lint = jobgen("lint")
        assert lint.code == 0
        assert "note[J167]" in lint.out
        (tmp_path / "job.yaml").write_text(text.replace("nodes: 1", "nodes: one"))
        lint = jobgen("lint")
        assert lint.code == 3
        assert "error[J121]: nodes: expected an integer" in lint.out + lint.err


def test_lint_checks_whether_each_variant_fits(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch.distributed\n")
    large = JOB.replace("nodes: 1, vars", "nodes: 9, vars")
    for text, words in ((large, ["-c", "a100x16"]), (f"cluster: a100x16\n{large}", [])):
        (tmp_path / "job.yaml").write_text(text)
        lint = jobgen("lint", *words, "--set", "DATA=/d", "job.yaml")
        assert lint.code == 3
        assert "error[J201]: nodes: 9, but a100x16 has 2" in lint.out + lint.err
        chosen = jobgen("lint", *words, "--set", "DATA=/d", "--set", "variant=", "job.yaml")
        assert "J201" not in chosen.out + chosen.err, "another variant is chosen"
    unknown = JOB.replace("nodes: 1, vars", "cluster: nowhere, vars")
    (tmp_path / "job.yaml").write_text(f"cluster: a100x16\n{unknown}")
    lint = jobgen("lint", "--set", "DATA=/d")
    assert lint.code == 3
    assert "small: " in lint.out + lint.err
    assert "nowhere" in lint.out + lint.err
