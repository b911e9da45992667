"""What is detected in a folder: its programs, the likeliest first, and the files beside them."""

from __future__ import annotations

import pytest

from jobgen.survey.project.detect import detect, name_job
from jobgen.survey.project.folder_listing import FolderListing

GUARD = "if __name__ == '__main__': main()\n"


def listing(**texts: str) -> FolderListing:
    """A folder with these files; ``__`` is a dot and ``___`` a slash in a name."""
    named = {k.replace("___", "/").replace("__", "."): v for k, v in texts.items()}
    return FolderListing("llm", tuple(named), named)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("import lightning as L\nimport torch.distributed", "lightning"),
        ("from pytorch_lightning import Trainer", "lightning"),
        ("from transformers import Trainer, TrainingArguments", "hf-trainer"),
        ("from trl import SFTTrainer", "hf-trainer"),
        ("import deepspeed, torch", "deepspeed"),
        ("from accelerate import Accelerator", "accelerate"),
        ("from megatron.training import pretrain", "megatron"),
        ("import torch.distributed as dist", "torch-distributed"),
        ("from torch.nn.parallel import DistributedDataParallel as DDP", "torch-distributed"),
        ("from torch.distributed.fsdp import fully_shard", "torch-distributed"),
        ("import torch\nfrom torch.nn import DataParallel", "torch"),
        ("from transformers import AutoModel\nimport torch", "torch"),
        ("import numpy", "python"),
        ("def f(:", "python"),
    ],
)
def test_a_program_is_of_the_first_kind_that_it_shows(text: str, kind: str) -> None:
    programs = detect(listing(train__py=text + "\n" + GUARD)).programs
    assert [(p.path, p.kind) for p in programs] == [("train.py", kind)]


def test_the_kind_is_seen_through_the_files_that_are_imported() -> None:
    project = detect(
        listing(
            train__py=f"from lib.setup import start\n{GUARD}",
            lib___setup__py="from .world import join\n",
            lib___world__py="import torch.distributed as dist\nfrom . import setup\n",
        )
    )
    assert [(p.path, p.kind) for p in project.programs] == [("train.py", "torch-distributed")]


def test_programs_are_ranked_and_helpers_left_out() -> None:
    project = detect(
        listing(
            eval__py="import torch, model\n",
            model__py="import torch\n",
            setup__py=GUARD,
            conftest__py="import torch\n",
            test_model__py=GUARD,
            tests___test_all__py=GUARD,
            scripts___train_big__py="import torch\n" + GUARD,
            train__py="import torch\n",
            tool__py=GUARD,
            notes__py="print(1)\n",
        )
    )
    paths = [program.path for program in project.programs]
    assert paths == ["train.py", "scripts/train_big.py", "eval.py", "tool.py"]


@pytest.mark.parametrize(
    ("files", "name", "value"),
    [
        ({"requirements__txt": "torch"}, "requirements", "requirements.txt"),
        ({"pyproject__toml": ""}, "pyproject", "pyproject.toml"),
        ({"uv__lock": ""}, "uv", "uv.lock"),
        ({"environment__yml": "channels: []\nname: llm-env\n"}, "conda", "llm-env"),
        ({"ds_config__json": '{"zero_optimization": {}}'}, "deepspeed_config", "ds_config.json"),
        ({"conf___a__json": '{"train_batch_size": 8}'}, "deepspeed_config", "conf/a.json"),
        (
            {"fsdp__yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"},
            "accelerate_config",
            "fsdp.yaml",
        ),
        ({"Dockerfile": ""}, "dockerfile", "Dockerfile"),
        ({"torch__sif": ""}, "image", "torch.sif"),
    ],
)
def test_a_detector_finds_its_file(files: dict[str, str], name: str, value: str) -> None:
    assert detect(listing(**files)).files == {name: value}


@pytest.mark.parametrize(
    "files",
    [
        {"a__json": "[" * 100_000},
        {"a__json": '["zero_optimization"]'},
        {"a__json": "{"},
        {"job__yaml": "num_processes: 4\n"},
        {"environment__yml": "name: ../../evil\n"},
        {"requirements-$(id)__txt": ""},
        {"a b__sif": ""},
        {"train\n__py": "import torch"},
    ],
)
def test_a_file_that_only_looks_like_it_is_passed_over(files: dict[str, str]) -> None:
    project = detect(listing(**files))
    assert not project.files
    assert not project.programs


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("llm", "llm"),
        ("my project (2)", "my-project-2"),
        ("..", "train"),
        ("", "train"),
        ("42", "train"),
        ("No", "train"),
        ("\n$(id)", "id"),
        ("ü" * 80, "train"),
        ("a" * 200, "a" * 48),
    ],
)
def test_a_folder_gives_a_valid_name(folder: str, name: str) -> None:
    assert name_job(folder) == name
