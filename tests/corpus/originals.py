"""The facts of the public scripts, and the job files that stand for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jobgen.catalog import Catalog
from jobgen.load import Loaded, load_cluster, load_job
from jobgen.load.schemas import build_form_schema
from jobgen.model.bundle import Bundle
from jobgen.model.facts import Facts
from jobgen.model.job import JobSpec
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve import resolve

HERE = Path(__file__).parent
CATALOG = Catalog((("here", HERE),), HERE)
SCHEMA = build_form_schema(JobSpec, "job")
CONFIGS = {".json": b"{}\n", ".yaml": b"compute_environment: LOCAL_MACHINE\n"}
"""What stands in for a configuration of the launcher that only the script's author has."""


class Step(NamedTuple):
    """A command of the script: when it runs, and a text by which to know it."""

    when: str
    text: str


class Original(NamedTuple):
    """What a public script asks for."""

    file: str
    source: str
    launcher: str
    directives: Mapping[str, str | None]
    """Long name → value; None where the script's user fills it in."""
    options: Mapping[str, str]
    """Of srun."""
    exports: Mapping[str, str]
    arguments: list[str]
    """Of the program."""
    steps: list[Step]
    needs: list[str]
    """Keys of the job file without which it cannot be expressed."""
    sets: list[str]
    """A value for each variable that the job file requires."""
    files: list[str]
    """Files of the workdir that the job file names."""
    differs: Mapping[str, str]
    """Facts in which the job differs on purpose, each with the reason."""

    @property
    def id(self) -> str:
        return self.file[:3]


@cache
def read_originals() -> dict[str, Original]:
    """Every script by its number."""
    rows = json.loads((HERE / "facts.json").read_text(encoding="utf-8"))
    found = [Original(**{**row, "steps": [Step(*step) for step in row["steps"]]}) for row in rows]
    return {original.id: original for original in found}


def find_missing_key(original: Original) -> str:
    """The first key that this script needs and jobgen does not know yet; '' if it knows all."""
    return next((need for need in original.needs if not is_known(need)), "")


def is_known(need: str) -> bool:
    """Whether the job file has this key (``workdir.at``), or a key this value (``launcher=x``)."""
    path, _, value = need.partition("=")
    text = json.dumps(_find(SCHEMA, path.split(".")))
    return f'"{value}"' in text if value else text != "null"


def _find(schema: object, path: list[str]) -> object:
    """The schema of a key, in whatever alternative it stands; None if there is none."""
    if isinstance(schema, list):
        return next((found for part in schema if (found := _find(part, path)) is not None), None)
    if not isinstance(schema, dict):
        return None
    if not path:
        return schema
    properties = schema.get("properties")
    if isinstance(properties, dict) and path[0] in properties:
        found = _find(properties[path[0]], path[1:])
        if found is not None:
            return found
    if "$ref" in schema:
        return _find(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], path)
    alternatives = [schema[word] for word in ("anyOf", "oneOf", "allOf") if word in schema]
    return _find(alternatives, path)


def load_original(original: Original, variant: str = "") -> Loaded[JobSpec]:
    """The job of a script's job file."""
    text = (HERE / original.file).read_text(encoding="utf-8")
    chosen = [f"variant={variant}"] if variant else []
    return load_job(text, original.file, sets=[*original.sets, *chosen])


@cache
def plan_original(number: str, variant: str = "") -> Plan:
    """The plan of a script's job file."""
    job = load_original(read_originals()[number], variant)
    profile = CATALOG.find_cluster(job.value.cluster or "")
    cluster = load_cluster(profile.text, profile.label, parent=profile.parent)
    config = job.value.launcher.config
    texts = {config: CONFIGS[Path(config).suffix]} if config else {}
    return resolve(job, cluster, Facts(texts=texts))


@cache
def render_original(number: str, variant: str = "") -> Bundle:
    """The files that are rendered for a script's job file."""
    return render(plan_original(number, variant), CATALOG.read_templates("slurm"))
