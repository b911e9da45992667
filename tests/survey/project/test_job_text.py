"""Every job.yaml that ``init`` can write is clean, and so is each commented-out key of it."""

from __future__ import annotations

import itertools
import re

import pytest

from jobgen.load import check, load_job
from jobgen.survey.project.detect import Project, detect
from jobgen.survey.project.folder_listing import FolderListing
from jobgen.survey.project.init_questions import (
    ChosenCluster,
    JobAnswers,
    ask_program,
    list_questions,
)
from jobgen.survey.project.job_text import write_job

GUARD = "if __name__ == '__main__': main()\n"
PROGRAMS = {
    "lightning": "import lightning\n",
    "hf-trainer": "from transformers import Trainer, HfArgumentParser\n",
    "deepspeed": "import deepspeed\ndeepspeed.add_config_arguments(p)\n",
    "accelerate": "from accelerate import Accelerator\n",
    "torch-distributed": "import torch.distributed\np.add_argument('--data', required=True)\n",
    "torch": "import torch\n",
    "python": "",
}
BESIDE = {
    "nothing": {},
    "conda": {"environment.yml": "name: llm\n"},
    "uv": {"uv.lock": "", "pyproject.toml": ""},
    "pyproject": {"pyproject.toml": ""},
    "requirements": {"requirements.txt": "torch\n"},
    "dockerfile": {"Dockerfile": ""},
    "sif": {"torch.sif": ""},
    "sqsh": {"torch.sqsh": ""},
    "deepspeed": {"conf/ds.json": '{"zero_optimization": {"stage": 2}, "train_batch_size": 8}'},
    "accelerate": {"fsdp.yaml": "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n"},
}
ANSWERS = (
    JobAnswers("train.py", gpus="1"),
    JobAnswers("train.py", "my.cluster-2", "2", "all", "1-12:00:00"),
    JobAnswers("train.py", "true", "1", "8", "90m"),
)
_KEY = re.compile(r"^# (?=[a-z_]+:(?: |$))|^# (?=  (?:source|conda) )", re.M)


def make_project(kind: str, beside: str, *, venv: bool = False) -> Project:
    texts = {"train.py": PROGRAMS[kind] + GUARD, **BESIDE[beside]}
    venvs = (".venv",) if venv else ()
    return detect(FolderListing("llm", tuple(texts), texts, venvs))


@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("beside", BESIDE)
def test_what_is_written_is_clean_with_every_key(kind: str, beside: str) -> None:
    for answers, venv in itertools.product(ANSWERS, (False, True)):
        text = write_job(make_project(kind, beside, venv=venv), answers)
        assert all(len(line) <= 90 for line in text.split("\n")), text
        for form in (text, _KEY.sub("", text)):
            checked = check(form, "job.yaml")
            assert checked.valid, form
            assert not checked.problems, (form, checked.problems)
            job = load_job(form, "job.yaml").value
            assert (job.cluster, str(job.nodes)) == (answers.cluster, answers.nodes)
            assert job.run.startswith("train.py")


def test_the_commented_keys_are_found_by_the_test_above() -> None:
    for beside, keys in (
        ("conda", {"setup", "slurm"}),
        ("uv", {"setup", "slurm"}),
        ("sif", {"container", "slurm"}),
        ("dockerfile", {"container", "slurm"}),
    ):
        text = write_job(make_project("torch-distributed", beside), ANSWERS[1])
        written = load_job(text, "job.yaml").value
        full = load_job(_KEY.sub("", text), "job.yaml").value
        changed = {k for k in type(full).keys if getattr(full, k) != getattr(written, k)}
        assert changed == {*keys, "gpus_per_node", "train"}


@pytest.mark.parametrize(
    ("kind", "beside", "launcher", "run"),
    [
        ("lightning", "nothing", "torchrun", "train.py"),
        ("torch-distributed", "nothing", "torchrun", "train.py"),
        ("accelerate", "nothing", "torchrun", "train.py"),
        ("accelerate", "accelerate", "accelerate", "train.py"),
        ("hf-trainer", "accelerate", "accelerate", "train.py"),
        ("torch-distributed", "accelerate", "torchrun", "train.py"),
        (
            "deepspeed",
            "deepspeed",
            "deepspeed",
            "train.py --deepspeed_config $JOBGEN_DEEPSPEED_CONFIG",
        ),
        ("hf-trainer", "deepspeed", "torchrun", "train.py --deepspeed conf/ds.json"),
        ("deepspeed", "nothing", "torchrun", "train.py"),
        ("torch-distributed", "deepspeed", "torchrun", "train.py"),
        ("torch", "nothing", None, "train.py"),
        ("python", "nothing", None, "train.py"),
    ],
)
def test_the_launcher_suits_the_program(
    kind: str, beside: str, launcher: str | None, run: str
) -> None:
    project = make_project(kind, beside)
    answers = JobAnswers("train.py", gpus="all" if launcher else "1")
    job = load_job(write_job(project, answers), "job.yaml").value
    assert (job.launcher.type, job.run) == (launcher, run)


def test_one_process_gets_one_gpu_and_the_way_to_more() -> None:
    project = make_project("torch", "nothing")
    (gpus,) = (q for q in list_questions(project, "train.py", {"local": ""}, ()) if q.key == "gpus")
    assert gpus.default == "1"
    text = write_job(project, JobAnswers("train.py", gpus="1"))
    assert "does not use torch.distributed" in text
    assert "DistributedDataParallel" in text


def test_a_program_that_reads_the_trainers_arguments_is_planned_with_its_batch() -> None:
    named = {kind: "framework: hf-trainer" in write_job(make_project(kind, "nothing"), ANSWERS[0])
             for kind in PROGRAMS}  # fmt: skip
    assert [kind for kind, names in named.items() if names] == ["hf-trainer"]


def test_the_model_that_the_program_loads_is_the_one_to_plan() -> None:
    load = "AutoModelForCausalLM.from_pretrained('Qwen/Qwen3-8B')\n"
    texts = {"train.py": PROGRAMS["hf-trainer"] + load + GUARD}
    text = write_job(detect(FolderListing("llm", tuple(texts), texts, ())), ANSWERS[0])
    assert "# train: {model: Qwen/Qwen3-8B, framework: hf-trainer}" in text


def test_an_environment_of_this_machine_is_not_uploaded() -> None:
    job = load_job(write_job(make_project("torch", "sif", venv=True), ANSWERS[0]), "job.yaml").value
    assert job.workdir.ignore == (".venv/", "torch.sif")


def test_required_arguments_are_named() -> None:
    text = write_job(make_project("torch-distributed", "nothing"), ANSWERS[0])
    assert "requires arguments; add them to run: --data" in text


def test_at_most_five_questions_are_asked_and_their_defaults_pass() -> None:
    project = make_project("torch-distributed", "nothing")
    questions = [ask_program(project), *list_questions(project, "train.py", {"local": ""}, ())]
    assert len(questions) <= 5
    assert all(question.check(question.default) == question.default for question in questions)


@pytest.mark.parametrize(
    ("key", "answer", "says"),
    [
        ("program", "gone.py", "no file"),
        ("program", "notes.txt", "Python file"),
        ("cluster", "loacl", "did you mean local?"),
        ("cluster", "\x1b[2J", "no cluster"),
        ("nodes", "0", "from 1 to 65536"),
        ("nodes", "two", "from 1 to 65536"),
        ("nodes", "²", "from 1 to 65536"),
        ("gpus", "-1", "or all"),
        ("time", "4:00", "4h"),
        ("time", "", "time"),
    ],
)
def test_a_wrong_answer_says_what_was_expected(key: str, answer: str, says: str) -> None:
    project = make_project("torch", "nothing")
    project = project._replace(listing=project.listing._replace(files=("train.py", "notes.txt")))
    questions = [ask_program(project), *list_questions(project, "train.py", {"local": ""}, ())]
    (question,) = (q for q in questions if q.key == key)
    with pytest.raises(ValueError, match=re.escape(says)):
        question.check(answer)


def test_the_number_of_ranks_is_the_key_that_counts_on_the_cluster() -> None:
    """On this machine processes, on a cluster GPUs."""
    project = make_project("torch-distributed", "nothing")
    here = write_job(project, JobAnswers("train.py", "local", gpus="all"))
    there = write_job(project, JobAnswers("train.py", "a100x16", gpus="all"))
    assert "\n# procs_per_node: 2  " in here
    assert "gpus_per_node" not in here
    assert "\n# gpus_per_node: 8  " in there
    assert "procs_per_node" not in there


def test_a_server_of_ones_own_is_this_machine_with_its_gpus_and_without_slurm() -> None:
    project = make_project("torch-distributed", "nothing")
    answers = JobAnswers("train.py", "server")
    text = write_job(project, answers, ChosenCluster(is_here=True, gpus_per_node=2))
    assert "\n# gpus_per_node: 2          # default: all GPUs of this machine\n" in text
    assert "\ncluster: server             # this machine; -c NAME chooses another\n" in text
    assert "On server, jobs use the environment that is active in your shell." in text
    assert "login host" not in text
    assert "slurm:" not in text
    bare = write_job(project, answers, ChosenCluster(is_here=True))
    assert "\n# procs_per_node: 2  " in bare
    there = write_job(project, answers, ChosenCluster(gpus_per_node=4))
    assert "\n# gpus_per_node: 4          # default: all GPUs of each node\n" in there
