"""``workdir:`` in job.yaml: what cannot stand beside code that stays on the cluster."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_job
from tests.resolve.made import job

UPLOADS_NOTHING = "but workdir.at uploads nothing"


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        load_job(job() + text, "job.yaml")
    return [(problem.code, problem.message) for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workdir: {at: /code, path: src}\n", "workdir.path is about the upload"),
        ("workdir: {at: /code, ignore: [data]}\n", "workdir.ignore is about the upload"),
        ("workdir: {at: /code, max_size: 1G}\n", "workdir.max_size is about the upload"),
        (
            "workdir: {at: /code}\nlauncher: {type: accelerate, config: a.yaml}\n",
            "launcher.config is read from the upload",
        ),
        (
            "workdir: {at: /code}\ntrain: {framework: deepspeed, config: ds.json}\n",
            "train.config is read from the upload",
        ),
        (
            "workdir: {at: /code}\ntrain: {model: conf/model.json}\n",
            "train.model is read from the upload",
        ),
    ],
)
def test_keys_that_need_an_upload_are_refused(text: str, message: str) -> None:
    assert problems(text) == [("J138", f"{message}, {UPLOADS_NOTHING}")]


@pytest.mark.parametrize("path", ["code", "~/code", "/code/../other"])
def test_the_directory_is_absolute(path: str) -> None:
    assert [code for code, _ in problems(f"workdir: {{at: {path}}}\n")] == ["J135"]


@pytest.mark.parametrize("path", ["/scratch/Megatron-LM", "$SCRATCH/Megatron-LM"])
def test_the_directory_may_begin_with_a_variable(path: str) -> None:
    loaded = load_job(job() + f"workdir: {{at: {path}}}\n", "job.yaml")
    assert loaded.value.workdir.at == path
