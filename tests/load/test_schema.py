"""The JSON Schema takes what the loader takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jobgen
from jobgen.catalog import find_shipped
from jobgen.load import Kind, build_schema
from jobgen.model.job import JobSpec
from jobgen.source import parse

ROOT = Path(__file__).parents[2]
PACKAGE = Path(jobgen.__file__).parent
JOBS = [*sorted((ROOT / "examples").rglob("job.yaml")), ROOT / "tests/bad_inputs/good-job.yaml"]
CLUSTERS = [*find_shipped("clusters").glob("*.yaml"), ROOT / "tests/bad_inputs/good-cluster.yaml"]


def fits(value: Any, rule: dict[str, Any], top: dict[str, Any]) -> bool:
    """Enough of JSON Schema for the keywords we write."""
    if "$ref" in rule:
        return fits(value, top["$defs"][rule["$ref"].rpartition("/")[2]], top)
    if "anyOf" in rule:
        return any(fits(value, one, top) for one in rule["anyOf"])
    if "if" in rule:
        branch = "then" if fits(value, rule["if"], top) else "else"
        if not fits(value, rule[branch], top):
            return False
    words = rule.get("enum", [rule["const"]] if "const" in rule else [value])
    kinds = rule.get("type", [kind_of(value)])
    kinds = {kinds} if isinstance(kinds, str) else {*kinds}
    kinds |= {"integer"} if "number" in kinds else set()
    low, high = rule.get("minimum", float("-inf")), rule.get("maximum", float("inf"))
    inside = not isinstance(value, (int, float)) or low <= value <= high
    return value in words and kind_of(value) in kinds and inside and fit_inside(value, rule, top)


def fit_inside(value: Any, rule: dict[str, Any], top: dict[str, Any]) -> bool:
    """Whether what the value holds fits."""
    if isinstance(value, list):
        return all(fits(v, rule.get("items", {}), top) for v in value)
    if not isinstance(value, dict):
        return True
    keys, more = rule.get("properties", {}), rule.get("additionalProperties", {})
    rules = {k: keys.get(k, more) for k in value}
    known = all(r is not False for r in rules.values())
    needed = all(k in value for k in rule.get("required", ()))
    return known and needed and all(fits(v, rules[k], top) for k, v in value.items())


def kind_of(value: Any) -> str:
    names = {dict: "object", list: "array", int: "integer", float: "number", type(None): "null"}
    if hasattr(value, "flag"):
        return "boolean"
    return next((n for k, n in names.items() if isinstance(value, k)), "string")


def data(text: str) -> Any:
    return parse(text, "x").data


@pytest.mark.parametrize("path", JOBS, ids=lambda p: p.parent.name)
def test_every_example_fits_the_schema_of_jobs(path: Path) -> None:
    assert fits(data(path.read_text()), build_schema("job"), build_schema("job"))


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda p: p.stem)
def test_every_profile_fits_the_schema_of_clusters(path: Path) -> None:
    assert fits(data(path.read_text()), build_schema("cluster"), build_schema("cluster"))


G = "name: d\nnodes: 1\ntime: 1h\nrun: train.py\n"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("nodes: 2:4", True),
        ("launcher: srun", True),
        ("launcher: {type: srun}", True),
        ("workdir: {path: ., ignore: '*.pt'}", True),
        ("setup: a", True),
        ("setup: [a, b]", True),
        ("secrets: [A]", True),
        ("secrets: {A: {file: x}, B: }", True),
        ("env: {A: 1, B: true, C: x}", True),
        ("slurm: {partition: gpu, exclusive: true, mem_per_cpu: 4G, extra: [--x]}", True),
        ("container: a.sqsh", True),
        ("mem: 0", True),
        ("checkpoint: {grace: 5m, requeue: true}", True),
        ("nodes: 0", False),
        ("nodess: 1", False),
        ("launcher: torchrum", False),
        ("launcher: {typ: srun}", False),
        ("slurm: {nodes: 4}", False),
        ("slurm: {partitoin: gpu}", False),
        ("env: {A: [1]}", False),
        ("min_nodes: 1", False),
    ],
)
def test_the_schema_takes_what_may_be_written(text: str, good: bool) -> None:
    top = build_schema("job")
    values = data(G) | data(text)
    assert fits(values, top, top) is good


WHOLE = "name: c\nscheduler: slurm\npaths: {root: /r}\nnodes: {count: 2}\n"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (WHOLE, True),
        ("extends: a100x16\nname: ours\nnodes: {cpus: 64}\n", True),
        ("extends: a100x16\nnodes: {cpus: 64}\n", False),
        (WHOLE.replace("count: 2", "cpus: 64"), False),
        (WHOLE.replace("scheduler: slurm\n", ""), False),
        (WHOLE + "network: {fabric: efa, env: {A: 1, B: {value: 2, why: x}}}\n", True),
        (WHOLE + "network: {fabric: efa, env: {B: {why: x}}}\n", False),
        (WHOLE + "versions: {nccl: 2.27.7, cuda: 12.8}\n", True),
    ],
)
def test_a_profile_needs_all_its_keys_unless_another_completes_it(text: str, good: bool) -> None:
    top = build_schema("cluster")
    assert fits(data(text), top, top) is good


@pytest.mark.parametrize("which", ["job", "cluster"])
def test_every_key_is_described(which: Kind) -> None:
    top = build_schema(which)
    for form in (top, *top["$defs"].values()):
        for name, key in form["properties"].items():
            assert key["description"].endswith("."), name


def test_every_key_of_a_job_is_read() -> None:
    """As ``job.KEY`` or ``value.KEY`` outside of the model; four are read while it is loaded."""
    modules = (path for path in PACKAGE.rglob("*.py") if path.parent.name != "model")
    texts = [path.read_text(encoding="utf-8") for path in modules]
    found = (key for text in texts for key in re.findall(r"\b(?:job|value)\.(\w+)", text))
    read = {key.rstrip("_") for key in found}
    assert JobSpec.keys.keys() - read == {"vars", "variant", "variants", "version"}


@pytest.mark.parametrize("which", ["job", "cluster"])
def test_the_schema_is_plain_data_without_ends_that_lead_nowhere(which: Kind) -> None:
    import json

    top = build_schema(which)
    text = json.dumps(top)
    for word in walk(top):
        if "$ref" in word:
            assert word["$ref"].rpartition("/")[2] in top["$defs"]
        assert "form" not in word or "properties" in word
    assert len(text) < 200_000


def walk(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from walk(item)
    if isinstance(value, list):
        for item in value:
            yield from walk(item)
