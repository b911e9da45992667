"""Groups and steps in images of their own: what is rendered, and what one job cannot do."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.render import render
from jobgen.resolve import resolve
from tests.golden.cases import templates
from tests.resolve.made import GPUS, job, plan

GROUPS = "groups: {{a: {{nodes: 1, run: train.py}}, b: {{nodes: 1, run: b.py{own}}}}}\n"
STEPS = "steps: [{{name: a, run: train.py}}, {{name: b, run: b.py{own}}}]\n"
NGC, HUB = "nvcr.io/nvidia/pytorch:25.09-py3", "vllm/vllm-openai:v0.11.0"
LOGIN = (
    "secrets: [K]\ncontainer: {{image: {image}, runtime: {runtime}, login: {{user: me, secret: K}}"
)
LOGIN += "}}\n"


def write(parts: str, image: str, container: str) -> str:
    """A job of two parts, whose second has an image of its own."""
    return job(run="") + parts.format(own=f", container: '{image}'") + container


@pytest.mark.parametrize("parts", [GROUPS, STEPS])
@pytest.mark.parametrize("runtime", ["pyxis", "edf", "apptainer", "docker", "shifter"])
def test_each_part_enters_its_own_image_with_the_mounts_of_the_job(
    parts: str, runtime: str
) -> None:
    container = f"container: {{image: {NGC}, runtime: {runtime}, mounts: [/data]}}\n"
    made = plan(write(parts, HUB, container))
    plans = {each.name: each.plan.container for each in made.programs}
    assert [HUB in c.image if c else None for c in plans.values()].count(True) == 1
    assert {c.mounts for c in plans.values() if c} == {made.containers[0].mounts}
    assert {c.runtime for c in made.containers} == {runtime}
    assert len(made.containers) == 2
    files = {file.path: file.content.decode() for file in render(made, templates()).files}
    entered = files["job.sbatch"] if runtime == "pyxis" else files.get("b/container.sh")
    assert HUB in (entered or files["b/environment.toml"])


@pytest.mark.parametrize("parts", [GROUPS, STEPS])
def test_the_batch_shell_records_each_image_file_once(parts: str) -> None:
    made = plan(write(parts, "/b.sqsh", "container: /a.sqsh\n"))
    script = render(made, templates())["job.sbatch"].content.decode()
    lines = [line for line in script.splitlines() if "image_digest.sh" in line]
    assert sorted(line.split()[3] for line in lines) == ["/a.sqsh", "/b.sqsh"]
    assert len({line.split()[4] for line in lines}) == 2
    same = plan(write(parts, "/a.sqsh", "container: /a.sqsh\n"))
    script = render(same, templates())["job.sbatch"].content.decode()
    assert script.count("image_digest.sh") == 1


def test_the_login_of_the_job_holds_for_its_registry_and_a_file_needs_none() -> None:
    for runtime in ("pyxis", "docker", "apptainer"):
        login = LOGIN.format(image=NGC, runtime=runtime)
        file = plan(write(GROUPS, "/b.sif", login)) if runtime != "docker" else None
        other = plan(write(GROUPS, "nvcr.io/nvidia/vllm:1", login))
        scripts = render(other, templates())
        names = ["job.sbatch"] if runtime == "pyxis" else ["a/container.sh", "b/container.sh"]
        for name in names:
            assert "read_password" in scripts[name].content.decode()
        if file and runtime == "apptainer":
            assert b"read_password" not in render(file, templates())["b/container.sh"].content
        if file and runtime == "pyxis":
            assert b"read_password" in render(file, templates())["job.sbatch"].content


@pytest.mark.parametrize(
    ("container", "message"),
    [
        ("", "b names an image, but the job has no container"),
        (
            LOGIN.format(image=NGC, runtime="docker"),
            "container.login is for nvcr.io, but the image of {kind} b is at docker.io",
        ),
    ],
)
@pytest.mark.parametrize(("parts", "kind"), [(GROUPS, "group"), (STEPS, "step")])
def test_an_image_that_nothing_can_run_or_pull_is_an_error(
    parts: str, kind: str, container: str, message: str
) -> None:
    with pytest.raises(Invalid) as caught:
        plan(write(parts, HUB, container))
    (problem,) = [each for each in caught.value.problems if each.severity == "error"]
    assert problem.code == "J216"
    assert message.format(kind=kind) in problem.message
    assert problem.place.line == 4


@pytest.mark.parametrize("parts", [GROUPS, STEPS])
def test_a_mapping_is_answered_with_where_its_keys_stand(parts: str) -> None:
    own = ", container: {image: x, runtime: docker}"
    with pytest.raises(Invalid, match="names only the image of its container"):
        plan(job(run="") + parts.format(own=own) + "container: y\n")


def test_profiles_with_different_runtimes_are_an_error() -> None:
    own = "{nodes: 1, run: b.py, cluster: other}"
    text = job(run="") + f"groups: {{a: {{nodes: 1, run: train.py}}, b: {own}}}\n"
    profiles = [
        load_cluster(f"{GPUS}defaults: {{container: {{image: x, runtime: {runtime}}}}}\n", "c.yaml")
        for runtime in ("pyxis", "docker")
    ]
    facts = Facts(profiles={"other": profiles[1]})
    with pytest.raises(Invalid) as caught:
        resolve(load_job(text, "job.yaml"), profiles[0], facts)
    (problem,) = [each for each in caught.value.problems if each.severity == "error"]
    assert "group b runs in docker, as its profile says, but group a in pyxis" in problem.message
