"""Every file that a rendered script names lies where the script looks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from jobgen.catalog import Catalog
from jobgen.load import load_cluster, load_job
from jobgen.model.bundle import Bundle
from jobgen.model.facts import Facts
from jobgen.render import render
from jobgen.resolve import resolve
from tests.corpus.originals import find_missing_key, load_original, read_originals, render_original
from tests.golden.cases import CASES, rendered, templates
from tests.resolve.made import job, plan

EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[2] / "examples").rglob("*.yaml")
    if re.search(r"^(run|steps|groups):", path.read_text(encoding="utf-8"), re.MULTILINE)
)
"""Jobs; not profiles, nor configurations of other programs."""
START = re.compile(r"^start_step\(\) \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
"""What starts a step or a group in job.sbatch, in the folder of its own files."""
MOVES = re.compile(r"export JOBGEN_BUNDLE_DIR=\$JOBGEN_BUNDLE_DIR/([\w-]+)")
IN_BUNDLE = re.compile(r'\$\{?JOBGEN_BUNDLE_DIR\}?"?/([\w./-]+)')
IN_STATE = re.compile(r'(>?)"\$JOBGEN_STATE_DIR/(hostfile[\w.-]*)"')
PROGRAMS = {
    "run": "run: train.py\n",
    "steps": "steps: [{name: a, run: train.py}, {name: b, run: b.py, nodes: 1}]\n",
    "groups": "groups: {a: {nodes: 1, run: train.py}, b: {nodes: 1, run: b.py, until: a}}\n",
}
FACTS = Facts(texts={"fsdp.yaml": b"compute_environment: LOCAL_MACHINE\n"})
IMAGE = "nvcr.io/nvidia/pytorch:25.09-py3"
KEYS = {
    **{
        runtime: f"container: {{image: {IMAGE}, runtime: {runtime}}}\n"
        for runtime in ("pyxis", "edf", "apptainer", "docker", "shifter")
    },
    **{
        launcher: f"launcher: {launcher}\n"
        for launcher in ("torchrun", "accelerate", "deepspeed", "srun", "plain")
    },
    "config": "launcher: {type: accelerate, config: fsdp.yaml}\n",
    "images": "container: {image: x, runtime: docker}\n",
    "once": "before: ls\nfinally: ls\nsetup: {node: make, outside: ls}\ncontainer: /x.sqsh\n",
    "signal": "checkpoint: {requeue: true, to: ranks}\nmonitor: 30s\nnotify: {command: ./tell}\n",
}


class Reference(NamedTuple):
    """A file that a script names, with the folder in which the script looks for it."""

    script: str
    target: str


def read_references(bundle: Bundle) -> Iterator[Reference]:
    """Every file of the bundle that one of its scripts names."""
    for file in bundle.files:
        if not file.path.endswith((".sh", ".sbatch")):
            continue
        folder, text = file.path.rpartition("/")[0], file.content.decode()
        for start in START.findall(text):
            part = MOVES.search(start)
            assert part is not None
            text = text.replace(start, "")
            for name in IN_BUNDLE.findall(MOVES.sub("", start)):
                yield Reference(file.path, str(Path(folder, part[1], name)))
        for name in IN_BUNDLE.findall(text):
            yield Reference(file.path, str(Path(folder, name)))


def check_references(bundle: Bundle) -> None:
    """Each file that is named exists, or is written by the job."""
    paths = {file.path for file in bundle.files}
    assert [each for each in read_references(bundle) if each.target not in paths] == []
    hostfiles = [
        found
        for file in bundle.files
        if file.path.endswith((".sh", ".sbatch"))
        for found in IN_STATE.findall(file.content.decode())
    ]
    written = {name for writes, name in hostfiles if writes}
    assert {name for _, name in hostfiles} == written


@pytest.mark.parametrize("case", CASES)
def test_a_golden_case_has_the_files_that_it_names(case: str) -> None:
    check_references(rendered(case))


@pytest.mark.parametrize(
    "number", [each.id for each in read_originals().values() if not find_missing_key(each)]
)
def test_a_public_job_has_the_files_that_it_names(number: str) -> None:
    for variant in ("", *load_original(read_originals()[number]).value.variants):
        check_references(render_original(number, variant))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_example_has_the_files_that_it_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    loaded = load_job(text, path.name)
    file = Catalog((("here", path.parent),), path.parent).find_cluster(
        loaded.value.cluster or "a100x16"
    )
    cluster = load_cluster(file.text, file.path.name, parent=file.parent)
    config = loaded.value.launcher.config
    texts = {config: (path.parent / config).read_bytes()} if config else {}
    check_references(render(resolve(loaded, cluster, Facts(texts=texts)), templates()))


@pytest.mark.parametrize("programs", PROGRAMS)
@pytest.mark.parametrize("keys", KEYS)
def test_a_job_of_any_parts_has_the_files_that_it_names(programs: str, keys: str) -> None:
    text = job(run="") + PROGRAMS[programs] + KEYS[keys]
    if keys == "images":
        text = text.replace("run: b.py", "container: y, run: b.py")
    check_references(render(plan(text, texts=FACTS.texts), templates()))


def test_a_planned_training_of_a_part_finds_its_configuration() -> None:
    model = "{layers: 2, hidden: 512, heads: 8, ffn: 2048, vocab: 32000}"
    train = f"train: {{strategy: zero3, model: {model}, micro_batch: 1}}"
    for launcher in ("deepspeed", "accelerate", "torchrun"):
        part = f"{{nodes: 1, run: train.py, launcher: {launcher}, {train}}}"
        text = job(run="") + f"groups: {{a: {part}, b: {{nodes: 1, run: b.py}}}}\n"
        bundle = render(plan(text), templates())
        check_references(bundle)
        assert "a/ds_config.json" in {file.path for file in bundle.files}
