"""What is checked of the model that ``train.model`` names."""

from __future__ import annotations

import json

import pytest

from jobgen.load import load_job
from jobgen.resolve.model_file import check_layer_classes

JOB = "name: demo\nnodes: 1\ngpus_per_node: 8\ntime: 2h\nrun: train.py\n"
FILE = "model/config.json"


@pytest.mark.parametrize(
    ("model", "wrap", "message"),
    [
        ("meta-llama/Llama-3.1-8B", "LlamaDecoderLyer", "is no layer of meta-llama/Llama-3.1-8B"),
        (FILE, "GPT2Block", "GPT2Block is no layer of model/config.json, but of model_type gpt2"),
        (FILE, "LlamaDecoderLayer", ""),
        (FILE, "Block", ""),
        ("someone/unknown", "LlamaDecoderLyer", ""),
        ("{layers: 2, hidden: 64, heads: 4}", "LlamaDecoderLyer", ""),
    ],
)
def test_a_class_to_wrap_is_one_of_the_model(model: str, wrap: str, message: str) -> None:
    spec = load_job(f"{JOB}train: {{strategy: fsdp2, wrap: {wrap}, model: {model}}}\n", "job.yaml")
    texts = {FILE: json.dumps({"text_config": {"model_type": "llama"}}).encode()}
    checks = list(check_layer_classes(spec, texts))
    assert [check.status for check in checks] == (["warn"] if message else [])
    for check in checks:
        assert message in check.message
        assert (check.code, check.hint) == ("J236", "set wrap: LlamaDecoderLayer")
        assert check.place is not None
        assert check.place.line == 6
