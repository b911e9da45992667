"""Where a run's metrics go: the mapping ``track`` for W&B, MLflow and TensorBoard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jobgen.model.fields import NAME, RELATIVE, check_choice, check_pattern, describe_value
from jobgen.model.form import Check, Form, check_form, key, refuse

MODES = ("online", "offline")
# Names and passwords belong under secrets, so a URL has no @.
_SERVER = r"(https?://|databricks)[A-Za-z0-9._~:/%\[\]-]{0,400}"


class Wandb(Form):
    """Weights & Biases."""

    project: str = key(NAME, default="", doc="WANDB_PROJECT; default: chosen by the program.")
    entity: str = key(NAME, default="", doc="WANDB_ENTITY; default: that of the API key.")
    mode: Literal["online", "offline"] | None = key(
        check_choice("mode", MODES),
        default=None,
        doc=(
            "online, or offline to write to track/wandb/ only; default: offline where the profile "
            "says internet: false, else online."
        ),
    )


class Mlflow(Form):
    """MLflow."""

    uri: str = key(
        check_pattern("J123", _SERVER, "a URL of a tracking server", "https://mlflow.example.org"),
        default="",
        doc="MLFLOW_TRACKING_URI: a server; default: files in track/mlflow/.",
    )
    experiment: str = key(
        NAME, default="", doc="MLFLOW_EXPERIMENT_NAME; default: the name of the job."
    )


class Tensorboard(Form):
    """TensorBoard."""

    dir: str = key(
        RELATIVE,
        default="track/tensorboard",
        doc="Directory in the workdir for event files, exported as $TENSORBOARD_LOGDIR.",
    )


_TRACKERS = ("wandb", "mlflow", "tensorboard")


class Track(Form):
    """Trackers that the program logs to."""

    wandb: Wandb | None = key(
        check_form(Wandb),
        default=None,
        doc="Weights & Biases; its API key is a secret: secrets: [WANDB_API_KEY].",
        example="{project: llama}",
    )
    mlflow: Mlflow | None = key(
        check_form(Mlflow),
        default=None,
        doc="MLflow.",
        example="{uri: https://mlflow.example.org}",
    )
    tensorboard: Tensorboard | None = key(
        check_form(Tensorboard), default=None, doc="TensorBoard.", example="{dir: runs}"
    )


def check_track(value: object) -> Track:
    """A mapping of trackers to their settings, or the words of those that need none."""
    if isinstance(value, Track):
        return value
    if isinstance(value, Mapping):
        return Track.read(value)
    words = _list_words(value)
    if not words:
        raise refuse("J120", f"expected a tracker, got {describe_value(value)}", "write wandb")
    check = check_choice("tracker", _TRACKERS)
    settings: dict[str, Any] = {check(word): {} for word in words}
    return Track.read(settings)


def _list_words(value: object) -> Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def _expand_trackers(value: object) -> dict[str, Any]:
    """Words as a mapping of trackers without settings, which are not checked yet."""
    return {str(word).lower(): {} for word in _list_words(value)}


_WORD = {"enum": list(_TRACKERS)}
TRACK = Check(
    check_track,
    {
        "anyOf": [
            _WORD,
            {"type": "array", "items": _WORD},
            {"form": Track, "expand": _expand_trackers},
        ]
    },
)
