"""Counts by transformers itself, and what is said where that cannot be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobgen.data import shapes
from jobgen.strategy.shapes import build_model, find_model
from jobgen.strategy.shapes.exact import NotBuilt, count_exactly
from jobgen.strategy.shapes.table import build_config

ROOT = Path(__file__).resolve().parents[3]
ROWS = {row.id: row for row in shapes()}


@pytest.mark.train("torch", "transformers")
@pytest.mark.parametrize("name", ["openai-community/gpt2", "meta-llama/Llama-3.1-405B"])
def test_the_count_is_that_of_the_table(name: str) -> None:
    arch = find_model(name)
    assert arch is not None
    hub = {"auto_map": {"AutoModelForCausalLM": "code.Own"}, "torch_dtype": "bfloat16"}
    assert count_exactly({**build_config(ROWS[name]), **hub}) == build_model(arch).count


@pytest.mark.train("torch", "transformers")
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "no model_type"),
        ({"model_type": "no_such_type"}, "cannot build model_type 'no_such_type'"),
        ({"model_type": "llama", "hidden_size": "wide"}, "cannot build model_type 'llama'"),
        ({"model_type": "llama", "num_attention_heads": 0}, "cannot build model_type 'llama'"),
    ],
)
def test_what_cannot_be_built_is_said(said: dict[str, Any], words: str) -> None:
    with pytest.raises(NotBuilt, match=words) as caught:
        count_exactly(said)
    assert len(str(caught.value)) < 300


def test_without_the_libraries_it_says_what_to_install() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from jobgen.strategy.shapes.exact import NotBuilt, count_exactly\n"
        "try: count_exactly({'model_type': 'llama'})\n"
        "except NotBuilt as error: print(error)\n"
    )
    # -S: no site-packages, and so neither torch nor transformers
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert "need torch and transformers: install them beside jobgen" in done.stdout, done.stderr


def test_the_table_is_read_without_torch() -> None:
    code = (
        "import sys; from jobgen.strategy.shapes import build_model, find_model;"
        "import jobgen.strategy.model_sizes;"
        "build_model(find_model('Llama-3.1-405B')).count; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
