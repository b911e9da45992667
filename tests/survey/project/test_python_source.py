"""Reading a Python file: imports, the main guard, required options; whatever the file holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.survey.project.python_source import read_python


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import torch.distributed as dist", "torch.distributed"),
        ("from torch import distributed", "torch.distributed"),
        ("import torch\ntorch.distributed.init_process_group()", "torch.distributed"),
        ("import torch as t\nt.distributed.barrier()", "torch.distributed"),
        ("from torch import nn\nnn.parallel.DistributedDataParallel(m)", "torch.nn.parallel"),
        ("from transformers import Trainer as T", "transformers.Trainer"),
        ("import transformers\nx = transformers.Trainer(m)", "transformers.Trainer"),
        ("def f():\n    import lightning as L", "lightning"),
        ("try:\n    import deepspeed\nexcept ImportError: pass", "deepspeed"),
        ("from .parallel import setup", ".parallel"),
        ("from . import parallel", ".parallel"),
        ("\ufefffrom torch import distributed".lstrip("\ufeff"), "torch.distributed"),
    ],
)
def test_what_a_file_uses_is_named_in_full(text: str, name: str) -> None:
    assert read_python(text).uses(name)


@pytest.mark.parametrize(
    "text",
    [
        "# import torch.distributed",
        "'''import torch.distributed'''",
        "torch = 1\ntorch.distributed",
        "import torchvision_distributed",
        "import nottorch.distributed",
    ],
)
def test_a_mention_is_no_use(text: str) -> None:
    assert not read_python(text).uses("torch.distributed", "torch")


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("if __name__ == '__main__':\n    main()", True),
        ("if '__main__' == __name__: main()", True),
        ("if name == '__main__': main()", False),
        ("if __name__ == 'train': main()", False),
        ("# if __name__ == '__main__':", False),
    ],
)
def test_a_main_guard_is_seen(text: str, guarded: bool) -> None:
    assert read_python(text).guarded is guarded


def test_required_arguments_are_listed() -> None:
    facts = read_python(
        "p.add_argument('-d', '--data', required=True)\n"
        "p.add_argument('--lr', type=float)\n"
        "p.add_argument('corpus')\n"
        "p.add_argument('extra', nargs='*')\n"
        "p.add_argument(*NAMES, required=True)\n"
        "p.add_argument('--flag', required=NEEDED)\n"
    )
    assert facts.required == ("--data", "corpus")
    assert facts.options == {"--data", "--lr", "--flag"}


QWEN = "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B', dtype=x)\n"


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (QWEN, "Qwen/Qwen3-8B"),
        ("m = t.GPT2LMHeadModel.from_pretrained('gpt2')", "gpt2"),
        ("m = M.from_pretrained(pretrained_model_name_or_path='a/b')", "a/b"),
        (f"{QWEN}t = AutoTokenizer.from_pretrained('a/b')", "Qwen/Qwen3-8B"),
        (f"{QWEN}m = PeftModel.from_pretrained(m, 'a/b')", "Qwen/Qwen3-8B"),
        ("m = M.from_pretrained(args.model)", ""),
        ("m = M.from_pretrained('./out/last')", ""),
        ("m = M.from_pretrained('/data/model')", ""),
        ("m = M.from_pretrained()", ""),
        ("from_pretrained('a/b')", ""),
        (f"{QWEN}teacher = M.from_pretrained('a/b')", ""),
    ],
)
def test_the_one_model_that_is_loaded_by_its_id_is_known(text: str, model: str) -> None:
    assert read_python(text).model == model


@pytest.mark.parametrize(
    "text",
    [
        "def f(:\n",
        "print 'Python 2'\n",
        "a\0b",
        "(" * 5000,
        "-" * 200_000 + "1",
        "a" + ".b" * 60_000,
        "x = " + "[" * 150 + "]" * 150,
        "if a:\n" + "".join(" " * i + "if a:\n" for i in range(1, 300)),
        "\ufffd\ufffd",
        "'\\d'\n0x_1\nx is 1\n",
        "# coding: rot13\nimport torch\n",
        "# coding: no-such-thing\n",
    ],
)
def test_no_text_raises_or_warns(text: str) -> None:
    read_python(text)


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    read_python(text)


@given(st.integers(0, 90), st.text(max_size=3))
def test_a_damaged_program_is_read(at: int, junk: str) -> None:
    text = "import torch\nif __name__ == '__main__':\n    p.add_argument('--a', required=True)\n"
    read_python(text[:at] + junk + text[at + 1 :])
