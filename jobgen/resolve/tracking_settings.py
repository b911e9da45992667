"""The variables of W&B, MLflow and TensorBoard: one run for all starts, in files that pull copies.

Tried: wandb 0.31 and mlflow-skinny 3.17. MLFLOW_RUN_ID must name a run that exists, and the server
makes the IDs, so MLFLOW_RUN_CONTEXT sets a tag by which the program finds its run again.
"""

from __future__ import annotations

from jobgen.errors import Diagnostic
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.part_plans import TrackPlan
from jobgen.model.plan import Part, Shape
from jobgen.model.tracking import Mlflow, Wandb
from jobgen.resolve.inputs import Inputs

ID = "JOBGEN_TRACK_ID"
_KEY = "WANDB_API_KEY"
_FOLDER = "track"
_ONE_RUN = "same for all starts of the run"
_Settings = dict[str, Setting]


def configure_tracking(look: Inputs, shape: Shape) -> tuple[TrackPlan | None, Part]:
    """The variables of the trackers, and their folders; None without ``track``."""
    track = look.job.track
    if track is None:
        return None, Part(_FOLDER)
    why = f"{_ONE_RUN}: a digest of its token"
    env = {ID: Setting("$track_id", why, look.cite_job("track"))}
    notes: list[Diagnostic] = []
    folders: list[str] = []
    if track.wandb is not None:
        env |= _set_wandb(look, shape, track.wandb)
        notes += _check_key(look)
        folders.append(f"{_FOLDER}/wandb")
    if track.mlflow is not None:
        env |= _set_mlflow(look, track.mlflow)
        folders += [] if track.mlflow.uri else [f"{_FOLDER}/mlflow"]
    if track.tensorboard is not None:
        folder = track.tensorboard.dir.rstrip("/")
        element = "/$SLURM_ARRAY_TASK_ID" if shape.elements is not None else ""
        place = look.cite_job("track", "tensorboard")
        why = "event files for TensorBoard"
        env["TENSORBOARD_LOGDIR"] = Setting(f"$JOBGEN_WORK_DIR/{folder}{element}", why, place)
        env["TENSORBOARD_LOGGING_DIR"] = Setting(
            f"$JOBGEN_WORK_DIR/{folder}{element}", "same, for transformers' Trainer", place
        )
        folders.append(folder)
    return TrackPlan(tuple(folders)), Part(_FOLDER, env=env, notes=tuple(notes))


def choose_wandb_mode(look: Inputs) -> Setting:
    """WANDB_MODE, as the job says, or as the nodes' network allows."""
    wandb = look.job.track.wandb if look.job.track else None
    if wandb is not None and wandb.mode is not None:
        place = look.cite_job("track", "wandb", "mode")
        return Setting(wandb.mode, SelfEvident.AS_ASKED, place)
    if look.cluster.network.internet is False:
        why = "the nodes have no internet: write files, for wandb sync"
        return Setting("offline", why, look.cite_cluster("network", "internet"))
    return Setting("online", "log to the server", look.cite_job("track", "wandb"))


def _set_wandb(look: Inputs, shape: Shape, wandb: Wandb) -> _Settings:
    place, name = look.cite_job("track", "wandb"), look.job.name
    array = shape.elements is not None
    title = f"{name}-$SLURM_ARRAY_TASK_ID" if array else name
    env = {
        "WANDB_MODE": choose_wandb_mode(look),
        "WANDB_RUN_ID": Setting(f"${ID}", _ONE_RUN, place),
        "WANDB_RESUME": Setting("allow", "continue that run after a requeue", place),
        "WANDB_NAME": Setting(title, SelfEvident.JOB_NAME, look.cite_job("name")),
        "WANDB_DIR": Setting(
            f"$JOBGEN_WORK_DIR/{_FOLDER}", "jobgen pull copies track/wandb/", cite_rule("track")
        ),
    }
    if array:
        group = f"{name}-$SLURM_ARRAY_JOB_ID"
        env["WANDB_RUN_GROUP"] = Setting(group, "one group for all elements", place)
    for key, value in (("project", wandb.project), ("entity", wandb.entity)):
        if value:
            asked = look.cite_job("track", "wandb", key)
            env[f"WANDB_{key.upper()}"] = Setting(value, SelfEvident.AS_ASKED, asked)
    return env


def _set_mlflow(look: Inputs, mlflow: Mlflow) -> _Settings:
    place, local = look.cite_job("track", "mlflow"), f"file://$JOBGEN_WORK_DIR/{_FOLDER}/mlflow"
    uri = Setting(local, "files that jobgen pull copies", place)
    if mlflow.uri:
        uri = Setting(mlflow.uri, SelfEvident.AS_ASKED, look.cite_job("track", "mlflow", "uri"))
    experiment = Setting(look.job.name, SelfEvident.JOB_NAME, look.cite_job("name"))
    if mlflow.experiment:
        asked = look.cite_job("track", "mlflow", "experiment")
        experiment = Setting(mlflow.experiment, SelfEvident.AS_ASKED, asked)
    tags = f'{{"jobgen.track_id": "${ID}"}}'
    # mlflow 3.17 refuses a folder without this
    files = {"MLFLOW_ALLOW_FILE_STORE": Setting("true", "MLflow 3 refuses files otherwise", place)}
    return {
        "MLFLOW_TRACKING_URI": uri,
        **({} if mlflow.uri else files),
        "MLFLOW_EXPERIMENT_NAME": experiment,
        "MLFLOW_RUN_CONTEXT": Setting(tags, "a tag that finds the run again", place),
    }


def _check_key(look: Inputs) -> list[Diagnostic]:
    """A warning if W&B would ask for an API key in a job, where nobody can answer."""
    listed = {secret.name for secret in look.job.secrets}
    if _KEY in listed or choose_wandb_mode(look).value == "offline":
        return []
    if {"WANDB_MODE", _KEY} & (look.job.env.keys() | look.cluster.defaults.env.keys()):
        return []
    message = f"track.wandb: {_KEY} is not listed under secrets:"
    hint = f"add secrets: [{_KEY}], or set mode: offline; ~/.netrc on the cluster works, too"
    place = look.spec.find_place("track", "wandb")
    return [Diagnostic("J275", message, place, hint, severity="warning")]
