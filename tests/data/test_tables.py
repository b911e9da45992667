"""The catalogues: complete, consistent, each with its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jobgen
from jobgen.catalog import Catalog
from jobgen.data import codes, gpus, nccl_folklore, nccl_variables, sbatch_options
from jobgen.load import check

PACKAGE = Path(jobgen.__file__).parent
PLAIN = "J000"
JOB = {"name": "demo", "nodes": "2", "gpus_per_node": "8", "time": "2h", "run": "train.py"}
CLUSTER = {
    "name": "c1",
    "scheduler": "slurm",
    "ssh": "{host: h}",
    "paths": "{root: /s}",
    "nodes": "{count: 2}",
    "network": "{fabric: none}",
}


FILES = ("source", "load", "model", "launch")


def used(*rooms: str) -> set[str]:
    """Codes that stand in the sources of these rooms, or of all."""
    found: set[str] = set()
    for folder in [PACKAGE / room for room in rooms] or [PACKAGE]:
        for path in folder.rglob("*.py"):
            found |= set(re.findall(r'"(J\d{3})"', path.read_text()))
    return found - {PLAIN}


def test_every_code_that_is_used_is_explained() -> None:
    assert used() - set(codes()) == set()


def test_every_code_that_is_explained_is_used() -> None:
    assert set(codes()) - used() == set()


def test_every_explanation_is_whole() -> None:
    for code in codes().values():
        assert re.fullmatch(r"J\d{3}", code.code)
        assert not code.title.endswith(".")
        assert code.why.endswith((".", "example.org"))
        assert code.wrong
        assert code.right


STANDALONE = {"J101", "J104", "J110", "J113"}
ELSEWHERE = {"J111", "J162", "J174", "J326", "J327", "J328", "J329"}
"""Codes of what is around a file, of one too large to show, and of plain scripts."""


@pytest.mark.parametrize("code", sorted(used(*FILES) - ELSEWHERE))
def test_the_examples_of_a_code_do_what_they_say(code: str) -> None:
    entry = codes()[code]
    wrong, right = check(whole(entry.wrong, code), "x"), check(whole(entry.right, code), "x")
    assert code in {p.code for p in wrong.problems}
    assert code not in {p.code for p in right.problems}
    assert right.valid or code in STANDALONE


def whole(example: str, code: str) -> str:
    """The example with the keys that a file needs besides."""
    if code in STANDALONE:
        return example
    there = set(re.findall(r"^([A-Za-z_]+):", example, re.MULTILINE))
    base = CLUSTER if code.startswith(("J17", "J183", "J185")) else JOB
    return "\n".join([example, *(f"{k}: {v}" for k, v in base.items() if k not in there), ""])


def test_every_option_of_sbatch_is_there() -> None:
    options = sbatch_options()
    assert len(options) == 139
    assert sum(o.removed != "" for o in options.values()) >= 18
    assert options["partition"].short == "p"
    assert all(o.why for o in options.values() if o.rule != "allow")


def test_every_gpu_has_plausible_figures_and_a_source() -> None:
    names: list[str] = []
    for gpu in gpus().values():
        names += [gpu.name, *gpu.aliases]
        assert 8 <= gpu.memory_gib <= 288
        assert 10 <= gpu.bf16_tflops <= 2500
        assert gpu.link_gbs >= 32
        assert gpu.source
    assert len(names) == len(set(names))


def test_every_gpu_of_a_shipped_profile_is_there() -> None:
    for file in Catalog((), Path()).clusters():
        assert check(file.text, file.label, parent=file.parent).valid


def test_variables_of_nccl_and_hearsay_do_not_overlap() -> None:
    assert len(nccl_variables()) > 400
    real = {n for n, v in nccl_variables().items() if v.owner == "nccl" and not v.until}
    assert not real & set(nccl_folklore())
