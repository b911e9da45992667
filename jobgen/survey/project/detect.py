"""What a folder holds that matters for a job: programs, environments, configurations."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.folder_listing import PLAIN_PATH, FolderListing
from jobgen.survey.project.training_programs import TrainingProgram, find_programs

_NAME = re.compile(r"^name:[ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9._-]{0,63})[\"']?[ \t]*$", re.M)
_ACCELERATE = re.compile(r"^(?:compute_environment|distributed_type|num_processes):", re.M)
_DEEPSPEED = {"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"}


class Project(NamedTuple):
    """What was detected in a folder."""

    name: str
    """A job name made from the folder's."""
    programs: tuple[TrainingProgram, ...]
    """The likeliest first."""
    files: Mapping[str, str]
    """Name of a detector → the file, folder or environment that it found."""
    listing: FolderListing

    def find_program(self, path: str) -> TrainingProgram:
        """The program of this path; one of an unknown kind if it was not detected."""
        known = (one for one in self.programs if one.path == path)
        return next(known, TrainingProgram(path, "python"))


def detect(listing: FolderListing) -> Project:
    """Everything that the detectors find. Never raises."""
    results = {name: find(listing) for name, find in DETECTORS.items()}
    files = {name: result for name, result in results.items() if result}
    return Project(name_job(listing.name), find_programs(listing), files, listing)


def name_job(folder: str) -> str:
    """A valid name for a job, from the name of a folder."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", folder)[:48].strip("-._")
    # a name that YAML would read as a number or a truth value
    return name if re.match(r"[A-Za-z]", name) and name.lower() not in _SPECIAL else "train"


_SPECIAL = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def _find_file(pattern: str) -> Callable[[FolderListing], str]:
    def find(listing: FolderListing) -> str:
        path = listing.find_top(pattern)
        return path if PLAIN_PATH.fullmatch(path) else ""

    return find


def _find_conda(listing: FolderListing) -> str:
    """The name of the conda environment that environment.yml describes."""
    path = listing.find_top(r"(?:environment|conda)[\w-]*\.ya?ml")
    match = _NAME.search(listing.texts.get(path, ""))
    return match[1] if match else ""


def _find_deepspeed(listing: FolderListing) -> str:
    return next((p for p, text in listing.list_texts(".json") if _is_deepspeed(text)), "")


def _is_deepspeed(text: str) -> bool:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(config, dict) and not _DEEPSPEED.isdisjoint(config)


def _find_accelerate(listing: FolderListing) -> str:
    texts = listing.list_texts(".yaml", ".yml")
    return next((path for path, text in texts if len(_ACCELERATE.findall(text)) > 1), "")


DETECTORS: Mapping[str, Callable[[FolderListing], str]] = {
    "requirements": _find_file(r"requirements[\w-]*\.txt"),
    "pyproject": _find_file(r"pyproject\.toml"),
    "uv": _find_file(r"uv\.lock"),
    "conda": _find_conda,
    "venv": lambda listing: listing.venvs[0] if listing.venvs else "",
    "deepspeed_config": _find_deepspeed,
    "accelerate_config": _find_accelerate,
    "dockerfile": _find_file(r"Dockerfile|Containerfile"),
    "image": _find_file(r".*\.(?:sif|sqsh)"),
}
"""What is looked for besides programs: name → what finds it."""
