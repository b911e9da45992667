"""The catalogues: complete, consistent, each with its source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import jobgen
from jobgen.catalog import Catalog
from jobgen.data import gpus, sbatch_options
from jobgen.data.causes import causes
from jobgen.data.env_variables import nccl_folklore, nccl_variables
from jobgen.data.message_codes import codes
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
    assert set(codes()) - used() == {cause.code for cause in causes().values()}


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
    base = CLUSTER if code.startswith(("J17", "J183", "J185", "J186")) else JOB
    if code in {"J299", "J330"}:  # each group has these
        there |= {"run", "nodes"}
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
        assert 10 <= gpu.multiprocessors <= 304
        assert gpu.link_gbs >= 32
        assert gpu.source
    assert len(names) == len(set(names))


def test_every_gpu_has_the_memory_that_cuda_reports_and_where_that_was_seen() -> None:
    known = gpus()
    for gpu in known.values():
        assert 0.9 * gpu.memory_gib < gpu.memory_mib / 1024 <= gpu.memory_gib, gpu.name
        assert gpu.memory_source, gpu.name
        if not gpu.memory_source.startswith("none found"):
            assert re.search(r"https://|public log|documentation", gpu.memory_source), gpu.name
        elif like := re.match(r"none found: as ([\w-]+)", gpu.memory_source):
            assert gpu.memory_mib == known[like[1]].memory_mib
        else:
            shown = re.search(r"97 % of the (\d+) MiB that nvidia-smi shows", gpu.memory_source)
            assert shown, gpu.name
            assert gpu.memory_mib == int(0.97 * int(shown[1]))


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("L40S-48GB", 44.4),
        ("A40-48GB", 44.4),
        ("A10-24GB", 22.1),
        ("L4-24GB", 22.0),
        ("RTX-4090-24GB", 23.5),
        ("B300-SXM-288GB", 267.7),
        ("H100-SXM5-80GB", 79.1),
        ("H200-SXM5-141GB", 139.8),
        ("MI300X-192GB", 192.0),
    ],
)
def test_the_memory_of_a_gpu_is_not_the_one_in_its_name(name: str, gib: float) -> None:
    assert round(gpus()[name].memory_mib / 1024, 1) == gib


def test_sources_of_memory_that_print_bytes_or_gibibytes_agree_with_the_table() -> None:
    for gpu in gpus().values():
        for gib in re.findall(r"^torch[^;(]*?(\d+\.\d\d) GiB", gpu.memory_source):
            assert abs(gpu.memory_mib / 1024 - float(gib)) < 0.01, gpu.name
        for mib in re.findall(r"^torch[^;]*?(\d{5,6}) ?Mi?B\"", gpu.memory_source):
            assert gpu.memory_mib in {int(mib), 2 * int(mib)}, gpu.name
        for size in re.findall(r"(\d{11,12}) bytes", gpu.memory_source):
            assert gpu.memory_mib == int(size) >> 20, gpu.name


def test_every_gpu_of_a_shipped_profile_is_there() -> None:
    for file in Catalog((), Path()).list_clusters():
        assert check(file.text, file.label, parent=file.parent).valid


def test_variables_of_nccl_and_hearsay_do_not_overlap() -> None:
    assert len(nccl_variables()) > 400
    real = {n for n, v in nccl_variables().items() if v.owner == "nccl" and not v.until}
    assert not real & set(nccl_folklore())
