"""Which files of a workdir are read for what the program mentions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from jobgen.app import program_sources, workdir_files
from jobgen.app.prepare import prepare
from jobgen.app.world import World

Job = Callable[..., Path]
TREE = {
    "train.py": "import os, numpy as np\nfrom lib import (a,  # one\n  b as c)\nimport pkg.deep\n",
    "lib/__init__.py": "",
    "lib/a.py": "from . import near\nfrom ..never import x\n",
    "lib/b.py": "",
    "lib/near.py": "from .far import thing",
    "lib/far.py": "JOBGEN_STRATEGY",
    "pkg/__init__.py": "",
    "pkg/deep.py": "",
    "src/other.py": "",
    "unread.py": "",
    "run.sh": "python tools/main.py --x 1",
    "tools/main.py": "import other\n",
    "conf/ds.json": "{}",
}


@pytest.fixture
def workdir(world: World) -> Path:
    folder = world.cwd / "src" / "work"
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def read(world: World, job: Job, run: str, train: str = "{strategy: fsdp2}") -> set[str] | None:
    text = "workdir: work\n" + (f"train: {train}\n" if train else "")
    sources = prepare(world, job(run, text), "here").facts.sources
    return None if sources is None else set(sources)


@pytest.mark.parametrize(
    ("run", "files"),
    [
        (
            "python train.py --deepspeed_config=./conf/ds.json",
            set(TREE) - {"src/other.py", "unread.py", "run.sh", "tools/main.py"},
        ),
        ("bash -c 'exec python src/other.py --x conf/ds.json'", {"src/other.py", "conf/ds.json"}),
        ("bash run.sh", {"run.sh", "tools/main.py", "src/other.py"}),
        ("-m pkg.deep", {"pkg/__init__.py", "pkg/deep.py"}),
        ("cd src && python other.py", {"src/other.py"}),
        ("python /etc/passwd ../outside.py", set()),
    ],
)
def test_what_run_names_is_read_and_what_that_imports(
    world: World, job: Job, workdir: Path, run: str, files: set[str]
) -> None:
    (workdir.parent / "outside.py").write_text("")
    assert read(world, job, run) == files


def test_the_launchers_configuration_is_read_with_the_program(
    world: World, job: Job, workdir: Path
) -> None:
    (workdir / "conf" / "acc.yaml").write_text(
        "# deepspeed_config_file: old.json\n"
        "deepspeed_config:\n  deepspeed_config_file: conf/ds.json\n"
    )
    path = job("unread.py", "workdir: work")
    launcher = "launcher: {type: accelerate, config: conf/acc.yaml}"
    path.write_text(path.read_text().replace("launcher: srun", launcher))
    facts = prepare(world, path, "here").facts
    assert set(facts.sources or {}) == {"unread.py"}
    assert set(facts.texts) == {"conf/acc.yaml", "conf/ds.json"}
    (workdir / "conf" / "ds.json").unlink()
    assert set(prepare(world, path, "here").facts.texts) == {"conf/acc.yaml"}


def test_nothing_is_read_without_train(world: World, job: Job, workdir: Path) -> None:
    assert read(world, job, "train.py", "") is None


LIMITS = [
    (program_sources, "MOST_FILES", 3),
    (workdir_files, "LARGEST", 10),
    (program_sources, "MOST_BYTES", 90),
]


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_too_much_is_not_known(
    world: World,
    job: Job,
    workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: tuple[ModuleType, str, int],
) -> None:
    monkeypatch.setattr(*limit)
    assert read(world, job, "python train.py") is None


def test_a_link_out_of_the_workdir_is_not_followed(world: World, job: Job, workdir: Path) -> None:
    (workdir / "lib" / "b.py").unlink()
    (workdir / "lib" / "b.py").symlink_to("near.py")
    sources = read(world, job, "python train.py")
    assert sources is not None
    assert "lib/b.py" not in sources


def test_the_examples_read_their_strategy(world: World, job: Job) -> None:
    examples = Path(__file__).parents[2] / "examples" / "gpt"
    for program in ("train_ddp.py", "train_3d.py", "train_fsdp2.py"):
        text = f"workdir: {examples}\nprocs_per_node: 2\ntrain: {{strategy: fsdp2}}\n"
        checks = prepare(world, job(program, text), "here").plan.checks
        assert [check for check in checks if check.code == "J256"] == []


def test_a_very_long_word_of_a_script_is_read_once(world: World, job: Job, workdir: Path) -> None:
    blob = "0123456789abcdef" * 50_000
    (workdir / "run.sh").write_text(f"echo {blob}\npython tools/main.py\n")
    (workdir / "tools" / "main.py").write_text("from lib import (\n" * 50_000)
    assert read(world, job, "bash run.sh") == {"run.sh", "tools/main.py", "lib/__init__.py"}
