"""Where checkpoints lie: of a job array, each element has a folder of its own."""

from __future__ import annotations

import pytest

from jobgen.model.decision import PlanCheck
from jobgen.model.plan import Plan
from tests.resolve.made import job, plan

ARRAY = "0-9%2"
ELEMENT = "$SLURM_ARRAY_TASK_ID"
SHAPE = "{layers: 8, hidden: 64, heads: 8}"
TRAIN = {
    "hf-trainer": "{framework: hf-trainer, strategy: ddp}",
    "lightning": "{framework: lightning, strategy: ddp}",
    "megatron": "{framework: megatron, strategy: zero1, "
    f"model: {SHAPE}, micro_batch: 1, seq_len: 64}}",
    "torchtitan": "{framework: torchtitan, strategy: fsdp2}",
}


def shared(made: Plan) -> list[PlanCheck]:
    return [check for check in made.checks if check.code == "J258"]


def test_each_element_of_an_array_has_a_folder_of_its_own() -> None:
    made = plan(job(array=ARRAY, checkpoint="{requeue: true}"))
    assert made.env["JOBGEN_CHECKPOINT_DIR"].value == f"$JOBGEN_WORK_DIR/checkpoints/{ELEMENT}"
    assert shared(made) == []
    alone = plan(job(checkpoint="{requeue: true}"))
    assert alone.env["JOBGEN_CHECKPOINT_DIR"].value == "$JOBGEN_WORK_DIR/checkpoints"


@pytest.mark.parametrize(
    "folder", ["/scratch/ckpt", "out", "$SCRATCH/ckpt", "/s/$SLURM_ARRAY_JOB_ID"]
)
def test_a_folder_that_names_no_element_is_a_warning(folder: str) -> None:
    made = plan(job(array=ARRAY) + f"checkpoint:\n  requeue: true\n  dir: {folder}\n")
    (check,) = shared(made)
    assert check.status == "warn"
    assert folder in check.message
    assert f"/{ELEMENT}" in check.hint
    assert check.place is not None
    assert check.place.line == 8
    assert shared(plan(job(checkpoint=f"{{dir: {folder}}}"))) == []


@pytest.mark.parametrize(
    "folder", [f"/scratch/{ELEMENT}", "/scratch/$SLURM_JOB_ID", "$JOBGEN_STATE_DIR/c", "$CKPT/x"]
)
def test_a_folder_that_names_the_element_is_taken_as_it_is(folder: str) -> None:
    env = f"{{CKPT: /scratch/{ELEMENT}}}"
    made = plan(job(array=ARRAY, env=env, checkpoint=f"{{dir: {folder}}}"))
    assert made.env["JOBGEN_CHECKPOINT_DIR"].value == folder
    assert shared(made) == []


@pytest.mark.parametrize(
    ("framework", "run", "option"),
    [
        ("hf-trainer", "train.py --output_dir {}", "--output_dir"),
        ("hf-trainer", "train.py --output_dir={}", "--output_dir"),
        ("lightning", "train.py fit --trainer.default_root_dir {}", "--trainer.default_root_dir"),
        ("megatron", "pretrain_gpt.py --num-workers 2 --save {}", "--save"),
        (
            "torchtitan",
            "-m torchtitan.train --module llama3 --config llama3_8b --checkpoint.folder {}",
            "--checkpoint.folder",
        ),
    ],
)
def test_an_argument_of_run_that_names_one_folder_for_all_is_a_warning(
    framework: str, run: str, option: str
) -> None:
    def check(folder: str, **keys: str) -> list[PlanCheck]:
        text = job(run=run.format(folder), train=TRAIN[framework], **keys)
        return shared(plan(text))

    (check_out,) = check("out", array=ARRAY)
    assert f"run: {option} out" in check_out.message
    assert check("out") == []
    assert check(f"out/{ELEMENT}", array=ARRAY) == []
    assert check("$JOBGEN_CHECKPOINT_DIR", array=ARRAY) == []
    assert check("$OUT", array=ARRAY, setup=f"[export OUT=out/{ELEMENT}]") == []


@pytest.mark.parametrize(("framework", "option"), [("megatron", "--save"), ("lightning", "--tr")])
def test_what_jobgen_passes_names_the_elements_folder(framework: str, option: str) -> None:
    run = {"megatron": "pretrain_gpt.py --num-workers 2", "lightning": "train.py fit"}[framework]
    made = plan(job(run=run, train=TRAIN[framework], array=ARRAY))
    (program,) = [step.text for step in made.steps if "JOBGEN_CHECKPOINT_DIR" in step.text]
    assert option in program
    assert ELEMENT in made.env["JOBGEN_CHECKPOINT_DIR"].value
    assert shared(made) == []
