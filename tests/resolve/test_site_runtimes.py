"""Shifter and the container engine of CSCS: what is rendered, and what they cannot do."""

from __future__ import annotations

import tomllib

import pytest

from jobgen.errors import Invalid
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, LOCAL, job, plan

IMAGE = "nvcr.io/nvidia/pytorch:25.09-py3"


def container(runtime: str, **keys: str) -> str:
    words = {"image": IMAGE, "runtime": runtime, **keys}
    return f"container: {{{', '.join(f'{key}: {value}' for key, value in words.items())}}}\n"


def write(text: str, path: str) -> str:
    return render(plan(text, CPUS), templates())[path].content.decode()


def test_shifter_is_told_image_modules_and_mounts_of_other_places() -> None:
    keys = {"modules": "[gpu, nccl-plugin]", "mounts": '["$DATA/x:/data:ro", /scratch, ".:/w"]'}
    script = write(job() + container("shifter", **keys), "container.sh")
    assert f"exec shifter --image=docker:{IMAGE} --module=gpu,nccl-plugin \\\n" in script
    volumes = [line.strip(" \\") for line in script.splitlines() if "--volume" in line]
    data, work = '--volume="${DATA}/x:/data:ro"', '--volume="${JOBGEN_WORK_DIR}:/w"'
    assert volumes == [data, work]


@pytest.mark.parametrize("image", ["docker://a/b:1", "a/b:1", "docker:a/b:1"])
def test_an_image_of_shifter_is_named_as_its_list_names_it(image: str) -> None:
    script = write(job() + container("shifter", image=image), "container.sh")
    assert "exec shifter --image=docker:a/b:1 \\\n" in script


def test_the_definition_file_names_image_mounts_and_hooks() -> None:
    mounts = '["$DATA/x:/data:ro", "/a$$b:/c"]'
    text = job() + container("edf", modules="[aws_ofi_nccl=cuda12, cxi]", mounts=mounts)
    assert tomllib.loads(write(text, "environment.toml")) == {
        "image": "nvcr.io#nvidia/pytorch:25.09-py3",
        "mounts": ["${JOBGEN_RUN_DIR}:${JOBGEN_RUN_DIR}", "${DATA}/x:/data:ro", "/a$$b:/c"],
        "annotations": {
            "com": {
                "hooks": {
                    "aws_ofi_nccl": {"enabled": "true", "variant": "cuda12"},
                    "cxi": {"enabled": "true"},
                }
            }
        },
    }


def test_a_definition_file_of_the_users_own_is_the_base_of_the_jobs() -> None:
    text = job() + container("edf", image="$HOME/.edf/ngc.toml", mounts="[/data]")
    assert tomllib.loads(write(text, "environment.toml")) == {
        "base_environment": "${HOME}/.edf/ngc.toml",
        "mounts": ["${JOBGEN_RUN_DIR}:${JOBGEN_RUN_DIR}", "/data:/data"],
    }


def test_srun_enters_by_the_file_and_sets_the_environment_again_inside() -> None:
    script = write(job() + container("edf") + "env: {A: '1 2'}\n", "job.sbatch")
    assert '--environment="$JOBGEN_BUNDLE_DIR/environment.toml" \\\n    bash -c ' in script
    assert "container" not in script.split("srun ", 1)[1].split("&\n")[0]
    handed = script.index("JOBGEN_ENV=$(declare -p ")
    assert script.index("export A=") < handed < script.index("--environment=")
    assert " A " in script[handed:].split("2>/dev/null")[0].replace("\n", " ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (container("pyxis", modules="[gpu]"), "container.modules is for shifter and edf"),
        (container("pyxis", image="/a/b.toml"), "definition file, which pyxis does not read"),
        (container("edf", image="b.toml"), "b.toml is not an absolute path"),
        (container("shifter", image="/a.sqsh"), "shifter runs images that were pulled before"),
        (
            "secrets: [K]\n" + container("shifter", login="{user: a, secret: K}"),
            "container.login has no effect with shifter",
        ),
        (
            "secrets: [K]\n" + container("edf", login="{user: a, secret: K}"),
            "container.login has no effect with edf",
        ),
    ],
)
def test_what_a_runtime_cannot_do_is_an_error(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(job() + text)
    (problem,) = caught.value.problems
    assert problem.code == "J216"
    assert message in problem.message


def test_the_engine_of_a_site_is_not_on_this_machine() -> None:
    with pytest.raises(Invalid, match="edf is a Slurm plug-in"):
        plan(job(nodes="1") + container("edf"), LOCAL)


@pytest.mark.parametrize("module", ["a b", "-x", "a,b", "$X"])
def test_a_module_is_one_name(module: str) -> None:
    with pytest.raises(Invalid) as caught:
        plan(job() + container("shifter", modules=f"['{module}']"))
    assert [problem.code for problem in caught.value.problems] == ["J120"]
