"""How the Python environment of a project gets onto a cluster, in one command and one key."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.detect import Project


class EnvironmentAdvice(NamedTuple):
    """What to do for one kind of environment."""

    commands: tuple[str, ...]
    """What to run once."""
    keys: tuple[str, ...]
    """Lines of job.yaml."""
    where: str = "Install them once, on its login host"


def advise_environment(project: Project) -> EnvironmentAdvice:
    """The advice for the first kind of environment that was detected, else for a venv."""
    found = next((name for name in ENVIRONMENTS if name in project.files), "venv")
    return ENVIRONMENTS[found](project)


def _use_image(project: Project) -> EnvironmentAdvice:
    image = project.files["image"]
    runtime = "apptainer" if image.endswith(".sif") else "pyxis"
    keys = f"container: {{image: $HOME/images/{image}, runtime: {runtime}}}"
    copy = f"scp {image} LOGIN_HOST:images/"
    return EnvironmentAdvice((copy,), (keys,), "Copy the image there, once")


def _use_dockerfile(project: Project) -> EnvironmentAdvice:
    name = f"registry.example.org/{project.name.lower()}:latest"
    build = f"docker build -f {project.files['dockerfile']} -t {name} ."
    return EnvironmentAdvice(
        (build, f"docker push {name}"), (f"container: {name}",), "Build the image and push it, once"
    )


def _use_conda(project: Project) -> EnvironmentAdvice:
    file = project.listing.find_top(r"(?:environment|conda)[\w-]*\.ya?ml")
    keys = ("setup: |", "  source ~/miniforge3/etc/profile.d/conda.sh")
    activate = f"  conda activate {project.files['conda']}"
    return EnvironmentAdvice((f"conda env create -f {file}",), (*keys, activate))


def _use_uv(project: Project) -> EnvironmentAdvice:
    command = f"UV_PROJECT_ENVIRONMENT=~/envs/{project.name} uv sync --frozen"
    return EnvironmentAdvice((command,), _activate(project))


def _use_venv(project: Project) -> EnvironmentAdvice:
    folder, files = f"~/envs/{project.name}", project.files
    packages = "."
    if "requirements" in files:
        packages = f"-r {files['requirements']}"
    elif "pyproject" not in files:
        packages = "torch"
    make = f"python3 -m venv {folder}"
    return EnvironmentAdvice((make, f"{folder}/bin/pip install {packages}"), _activate(project))


def _activate(project: Project) -> tuple[str, ...]:
    return (f"setup: source ~/envs/{project.name}/bin/activate",)


ENVIRONMENTS: Mapping[str, Callable[[Project], EnvironmentAdvice]] = {
    "image": _use_image,
    "dockerfile": _use_dockerfile,
    "conda": _use_conda,
    "uv": _use_uv,
    "venv": _use_venv,
}
"""Detector → its advice; the first that found something is taken."""
