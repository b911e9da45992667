"""Every case renders to the files that lie beside it; their diff is the review of a change.

``pytest tests/golden --golden-update`` writes them anew. What ships as it is (rank.sh and the like)
is a link to the one copy there is.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import jobgen.payload
from jobgen.render import render
from jobgen.render.shipped_templates import fill_shipped
from tests.golden.cases import CASES, CATALOG, HERE, planned, rendered, templates
from tests.products import one_of_each
from tests.shellcheck import complaints, shellcheck

PAYLOAD = Path(jobgen.payload.__file__).parent
every_case = pytest.mark.parametrize("case", CASES)
NETWORKS = [
    *("aws-p5-2n", "azure-nd-h100-2n", "azure-nd-mi300x-2n", "dgx-h100-2n", "gb200-nvl72-2n"),
    *("gcp-a3-mega-2n", "gcp-a4-2n", "lumi-g-2n", "oci-h100-2n", "rtx4090-2n"),
]
"""One of each family of those that differ from others by the variables of their network."""
CHECKED = [case for case in CASES if not case.endswith("-2n")] + NETWORKS


@every_case
def test_a_case_renders_to_its_files(case: str, pytestconfig: pytest.Config) -> None:
    folder = HERE / case / "bundle"
    bundle = rendered(case)
    if pytestconfig.getoption("--golden-update"):
        shutil.rmtree(folder, ignore_errors=True)
        for file in bundle.files:
            write(folder / file.path, PAYLOAD / file.path, file.content)
    there = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert {file.path: file.content.decode() for file in bundle.files} == there


@every_case
def test_jobgens_own_templates_need_no_jinja(case: str) -> None:
    assert render(planned(case), templates(), fill_shipped) == rendered(case)
    kept = render(planned(case), templates(), fill_shipped, standalone=True)
    assert kept == render(planned(case), templates(), standalone=True)


def test_every_shipped_profile_has_a_case() -> None:
    named = {planned(case).cluster for case in CASES}
    assert {file.name for file in CATALOG.list_clusters()} - named == set()


def write(place: Path, shipped: Path, content: bytes) -> None:
    """A golden file; a link where the same bytes ship with jobgen."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if shipped.is_file() and shipped.read_bytes() == content:
        place.symlink_to(os.path.relpath(shipped, place.parent))
    else:
        place.write_bytes(content)


@every_case
def test_a_script_is_bash(case: str) -> None:
    for content in scripts(case):
        assert complaints(content, "bash", "-n") == ""


@pytest.mark.parametrize("case", one_of_each(CASES, CHECKED))
def test_shellcheck_finds_nothing_in_a_script(case: str) -> None:
    for content in scripts(case):
        assert complaints(content, shellcheck(), "--shell=bash", "-") == ""


def scripts(case: str) -> list[bytes]:
    """All of a case that bash runs."""
    names = (".sh", ".sbatch")
    return [file.content for file in rendered(case).files if file.path.endswith(names)]


@every_case
def test_the_directives_are_those_of_the_plan_and_nothing_else(case: str) -> None:
    plan = planned(case)
    script = rendered(case)["job.sbatch"].content.decode()
    head = script[: script.index("# shellcheck")]
    tables = [each.directives for each in plan.components] or [plan.directives]
    for part, directives in zip(head.split("#SBATCH hetjob\n"), tables, strict=True):
        found = {}
        for line in part.splitlines():
            if line.startswith("#SBATCH"):
                (word,) = shlex.split(line.removeprefix("#SBATCH"), comments=True)
                name, _, value = word.removeprefix("--").partition("=")
                found[name] = value
        assert found == {name: setting.value for name, setting in directives.items()}
    assert "#SBATCH" not in script[len(head) :]


@every_case
def test_the_environment_arrives_as_bash_reads_it(case: str) -> None:
    """What a rank sees is the value with its $NAMEs expanded, and every other byte as written."""
    plan, files = planned(case), {file.path: file.content for file in rendered(case).files}
    script = files.get("element.sh", files["job.sbatch"]).decode()
    part = script.split("# ---- Environment of every rank")[1].split("# ---- Rendezvous")[0]
    known = {
        "USER": "ann",
        "JOBGEN_WORK_DIR": "/w",
        "JOBGEN_BUNDLE_DIR": "/b",
        "JOBGEN_RUN_DIR": "/r",
    }
    known |= {"PATH": "/usr/bin:/bin", "HOME": "/h", "SLURM_JOB_ID": "7"}
    known |= {"SLURM_JOB_CPUS_PER_NODE": "208(x2)", "JOBGEN_LOG_DIR": "/l"}
    known |= {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "7", "track_id": "0a"}
    done = subprocess.run(
        ["bash", "-c", f"set -u\n:{part}\nexec env -0"], env=known, capture_output=True, check=True
    )
    got = dict(item.decode().split("=", 1) for item in done.stdout.split(b"\0") if item)
    for name, setting in plan.env.items():
        wanted = re.sub(
            r"\$(\$|\w+)",
            lambda m: "$" if m[1] == "$" else (known | got)[m[1]],
            setting.value,
        )
        assert got[name] == wanted, name


@every_case
def test_no_line_names_a_machine_a_person_or_a_time(case: str) -> None:
    for file in rendered(case).files:
        text = file.content.decode()
        assert str(HERE) not in text
        assert not re.search(r"\b20[2-9]\d-\d\d-\d\d\b", text)
        assert all(len(line) <= 1000 for line in text.splitlines())


@every_case
def test_rendering_twice_gives_the_same_bytes(case: str) -> None:
    again = render(planned(case), templates())
    assert again == rendered(case)
    assert again.digest == rendered(case).digest


@every_case
def test_what_a_bundle_brings_is_called(case: str) -> None:
    """A block of rank.sh that a job needs must not end up inside of another's."""
    files = {file.path: file.content for file in rendered(case).files}
    assert (b"preflight.sh" in files["job.sbatch"]) == ("preflight.sh" in files)
    plans = {f"{each.name}/rank.sh": each.plan for each in planned(case).programs}
    for path, plan in (plans or {"rank.sh": planned(case)}).items():
        rank, binding = files[path], plan.other.get("bind")
        assert (b"taskset" in rank) == (binding is not None and binding.value == "auto")
        assert (b"secrets.env" in rank) == bool(plan.secrets)
        assert b"#if " not in rank
        assert b"#fi" not in rank
