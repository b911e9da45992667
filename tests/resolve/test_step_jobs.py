"""Each step is decided like a job of its own; the job's request fits all of them."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, GPUS, job, plan

TRAIN = "{name: train, run: train.py}"


def steps(*more: str, cluster: str = GPUS, **keys: str) -> Plan:
    return plan(job(run="", steps=f"[{', '.join([TRAIN, *more])}]", **keys), cluster)


def test_each_step_has_a_shape_and_a_launcher_of_its_own() -> None:
    made = steps("{name: eval, run: eval.py, nodes: 1, launcher: srun}")
    shapes = [(p.name, p.plan.shape.world, p.plan.launcher.value) for p in made.programs]
    assert shapes == [("train", 16, "torchrun"), ("eval", 8, "srun")]
    assert made.shape.nodes == 2
    assert made.directives["nodes"].value == "2"
    words = " ".join(str(word) for line in made.programs[1].plan.start for word in line)
    assert "--nodes=1 --ntasks=8" in words
    assert "--relative=0" in words


def test_the_step_with_most_cpus_sizes_the_request() -> None:
    small = "{name: small, run: ./count, launcher: plain}"
    big = "{name: big, run: b.py, procs_per_node: 8}"
    keys = {"procs_per_node": "1", "cpus_per_task": "2", "slurm": "{oversubscribe: true}"}
    made = steps(small, big, cluster=CPUS, **keys)
    first = plan(job(run="b.py", **{**keys, "procs_per_node": "8"}), CPUS)
    assert made.directives["cpus-per-task"].value == first.directives["cpus-per-task"].value


def test_only_what_all_steps_share_is_exported_for_all() -> None:
    made = steps("{name: eval, run: eval.py, env: {MODE: test}}", env="{MODE: run, A: 1, B: $MODE}")
    assert made.env["A"].value == "1"
    assert "MODE" not in made.env
    assert "B" not in made.env, "it follows from what differs"
    assert [p.plan.env["MODE"].value for p in made.programs] == ["run", "test"]
    assert all("B" in p.plan.env for p in made.programs)
    assert "TORCH_FR_DUMP_TEMP_FILE" not in made.env, "each step has its own folder of logs"


def test_a_reason_names_the_line_of_the_step() -> None:
    text = job(run="") + "steps:\n- run: train.py\n- run: eval.py\n  launcher: srun\n"
    second = plan(text).programs[1]
    assert str(second.place) == "job.yaml:6"
    assert str(second.plan.launcher.place) == "job.yaml:7"


def test_a_step_that_cannot_be_is_an_error_of_the_job() -> None:
    with pytest.raises(Invalid, match=r"count' is not a Python program"):
        steps("{name: count, run: ./count}")


def test_files_of_a_program_lie_beside_its_scripts() -> None:
    made = steps("{name: eval, run: eval.py, launcher: accelerate}")
    assert [[file.path for file in program.files] for program in made.programs] == [
        [],
        ["accelerate.yaml"],
    ]
    assert "accelerate.yaml" not in {file.path for file in made.files}


def test_a_step_on_one_node_uses_no_network() -> None:
    made = steps("{name: eval, run: eval.py, nodes: 1}")
    assert "NCCL_NET" in made.programs[0].plan.env
    assert "NCCL_NET" not in made.programs[1].plan.env
