"""Classes of layers: what a model has, what is misspelt, and what is a program's own."""

from __future__ import annotations

import pytest

from jobgen.strategy.shapes.families import FAMILIES
from jobgen.strategy.shapes.layer_classes import LAYER_CLASSES, find_unlikely_class


def test_every_family_has_its_layers() -> None:
    assert LAYER_CLASSES.keys() == FAMILIES.keys()


@pytest.mark.parametrize(
    ("kind", "name", "layer", "other"),
    [
        ("llama", "LlamaDecoderLyer", "LlamaDecoderLayer", ""),
        ("llama", "llamadecoderlayer", "LlamaDecoderLayer", ""),
        ("llama", "GPT2Block", "LlamaDecoderLayer", "gpt2"),
        ("qwen2_vl", "Qwen2VLVisonBlock", "Qwen2VLVisionBlock", ""),
        ("mixtral", "MistralDecoderLayer", "MixtralDecoderLayer", "mistral"),
    ],
)
def test_a_class_that_the_model_lacks_has_the_right_one(
    kind: str, name: str, layer: str, other: str
) -> None:
    assert find_unlikely_class(kind, ("Embedding", name)) == (name, other, layer)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("llama", "LlamaDecoderLayer"), ("llama", "Block"), ("", "X"), ("own", "GPT2Block")],
)
def test_own_classes_and_unknown_models_are_left_alone(kind: str, name: str) -> None:
    assert find_unlikely_class(kind, (name,)) is None


@pytest.mark.train
def test_the_table_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    auto = transformers.models.auto.modeling_auto
    absent = {"baichuan", "deepseek", "internlm2", "kimi_k2", "qwen"}
    for kind in LAYER_CLASSES.keys() - absent:
        config = transformers.CONFIG_MAPPING[kind]
        model = auto.MODEL_MAPPING[config]
        names = getattr(model, "_no_split_modules", None) or ()
        assert LAYER_CLASSES[kind][0] in names, kind
