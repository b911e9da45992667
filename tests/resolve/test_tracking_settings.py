"""All starts of a run log to one run of the tracker, and what it writes comes with pull."""

from __future__ import annotations

import json

import pytest

from jobgen.load import load_job
from jobgen.model.tracking import Track
from jobgen.resolve.tracking_settings import ID
from tests.resolve.made import GPUS, JOB, job, plan

FOLDER = "$JOBGEN_WORK_DIR/track"


def variables(track: str, **keys: str) -> dict[str, str]:
    return {name: s.value for name, s in plan(job(track=track, **keys)).env.items()}


def warned(track: str, **keys: str) -> bool:
    return any(note.code == "J275" for note in plan(job(track=track, **keys)).notes)


def test_a_job_without_trackers_has_none_of_it() -> None:
    planned = plan(JOB)
    assert planned.track is None
    assert not [name for name in planned.env if name == ID or "WANDB" in name or "MLFLOW" in name]


@pytest.mark.parametrize("track", ["wandb", "[wandb]", "{wandb: {}}"])
def test_a_tracker_may_be_a_word_a_list_or_a_mapping(track: str) -> None:
    assert load_job(job(track=track), "job.yaml").value.track == Track(wandb={})


def test_wandb_continues_one_run() -> None:
    env = variables("{wandb: {project: llama, entity: nlp}}", secrets="[WANDB_API_KEY]")
    assert {name: value for name, value in env.items() if "WANDB" in name} == {
        "WANDB_MODE": "online",
        "WANDB_RUN_ID": f"${ID}",
        "WANDB_RESUME": "allow",
        "WANDB_NAME": "demo",
        "WANDB_DIR": FOLDER,
        "WANDB_PROJECT": "llama",
        "WANDB_ENTITY": "nlp",
    }


def test_elements_of_an_array_are_runs_of_one_group() -> None:
    env = variables("wandb", array="0-3")
    assert env["WANDB_NAME"] == "demo-$SLURM_ARRAY_TASK_ID"
    assert env["WANDB_RUN_GROUP"] == "demo-$SLURM_ARRAY_JOB_ID"


def test_mlflow_keeps_files_and_a_tag_that_finds_the_run() -> None:
    env = variables("mlflow")
    assert env["MLFLOW_TRACKING_URI"] == f"file://{FOLDER}/mlflow"
    assert env["MLFLOW_EXPERIMENT_NAME"] == "demo"
    assert json.loads(env["MLFLOW_RUN_CONTEXT"]) == {"jobgen.track_id": f"${ID}"}


def test_mlflow_may_have_a_server() -> None:
    env = variables("{mlflow: {uri: 'https://ml.example.org:5000/a', experiment: sft}}")
    assert env["MLFLOW_TRACKING_URI"] == "https://ml.example.org:5000/a"
    assert env["MLFLOW_EXPERIMENT_NAME"] == "sft"


@pytest.mark.parametrize("uri", ["https://me:word@ml.example.org", "$(id)", "file:///x"])
def test_the_url_of_a_server_holds_no_password_and_no_shell(uri: str) -> None:
    problems = load_job_problems(job(track=f"{{mlflow: {{uri: '{uri}'}}}}"))
    assert "J123" in problems


def load_job_problems(text: str) -> set[str]:
    from jobgen.errors import Invalid

    with pytest.raises(Invalid) as caught:
        load_job(text, "job.yaml")
    return {problem.code for problem in caught.value.problems}


def test_tensorboard_writes_below_the_workdir() -> None:
    assert variables("tensorboard")["TENSORBOARD_LOGDIR"] == f"{FOLDER}/tensorboard"
    runs = "{tensorboard: {dir: runs}}"
    assert variables(runs)["TENSORBOARD_LOGGING_DIR"] == "$JOBGEN_WORK_DIR/runs"
    element = variables(runs, array="0-3")["TENSORBOARD_LOGDIR"]
    assert element == "$JOBGEN_WORK_DIR/runs/$SLURM_ARRAY_TASK_ID"


def test_pull_brings_what_trackers_wrote() -> None:
    planned = plan(job(track="[wandb, tensorboard]", outputs="['*.csv']"))
    assert planned.outputs == ("*.csv", "/track/wandb/", "/track/tensorboard/")


def test_a_server_keeps_nothing_to_pull() -> None:
    planned = plan(job(track="{mlflow: {uri: 'https://ml.example.org'}}"))
    assert planned.outputs == ()


def test_env_wins_over_a_tracker() -> None:
    assert variables("wandb", env="{WANDB_NAME: other}")["WANDB_NAME"] == "other"


@pytest.mark.parametrize(
    ("track", "keys", "warns"),
    [
        ("wandb", {}, True),
        ("wandb", {"secrets": "[WANDB_API_KEY]"}, False),
        ("wandb", {"env": "{WANDB_MODE: disabled}"}, False),
        ("{wandb: {mode: offline}}", {}, False),
        ("[mlflow, tensorboard]", {}, False),
    ],
)
def test_a_missing_api_key_is_a_warning(track: str, keys: dict[str, str], warns: bool) -> None:
    assert warned(track, **keys) is warns


@pytest.mark.parametrize(
    ("track", "internet", "mode"),
    [
        ("wandb", "false", "offline"),
        ("wandb", "true", "online"),
        ("{wandb: {mode: online}}", "false", "online"),
    ],
)
def test_nodes_without_internet_write_files(track: str, internet: str, mode: str) -> None:
    cluster = GPUS.replace("infiniband}", f"infiniband, internet: {internet}}}")
    planned = plan(job(track=track), cluster)
    assert planned.env["WANDB_MODE"].value == mode
    assert any(note.code == "J275" for note in planned.notes) is (mode == "online")
