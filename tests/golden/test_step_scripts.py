"""Steps and groups beside other keys that add to the scripts: what is rendered is sound bash."""

from __future__ import annotations

import pytest

from jobgen.model.plan import Plan
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import job, plan
from tests.shellcheck import complaints, shellcheck

STEPS = (
    "[{name: train, run: train.py, launcher: accelerate}, "
    "{name: eval, run: eval.py, nodes: 1, launcher: deepspeed}, "
    "{run: ./count, launcher: plain, nodes: 1}]"
)
KEYS = {
    "sweep": {"sweep": "{grid: {LR: [1, 2]}}", "env": "{A: 1}"},
    "signal": {"checkpoint": "{requeue: true, to: ranks}", "secrets": "[TOKEN]", "monitor": "30s"},
    "pdsh": {"steps": "[{run: train.py, launcher: {type: deepspeed, ssh: pdsh}}]"},
    "pyxis": {"container": "nvcr.io/x:1", "before": "ls", "finally": "ls"},
    "apptainer": {"container": "{image: /x.sif, runtime: apptainer}"},
    "docker": {"container": "{image: x, runtime: docker}"},
    "array": {"array": "0-3", "notify": "{command: ./tell, on: [fail]}"},
}


GROUPS = """\
groups:
  train: {nodes: 1, run: train.py, launcher: deepspeed}
  serve: {nodes: 1, run: ./serve, launcher: plain, until: train, ready: {port: auto}}
  count: {on: train, run: ./count, until: train, ready: {file: $HOME/counted}}
  ray-head: {on: serve, run: ray start --block, ready: {command: "ray status\\ntest -e x"}}
"""


@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.parametrize("case", KEYS)
def test_scripts_of_steps_are_sound(case: str, *, standalone: bool) -> None:
    made = plan(job(**{"run": "", "steps": STEPS, **KEYS[case]}))
    check_scripts(made, "step.sh", standalone=standalone)


@pytest.mark.parametrize("standalone", [False, True])
@pytest.mark.parametrize("case", [case for case in KEYS if case != "pdsh"])
def test_scripts_of_groups_are_sound(case: str, *, standalone: bool) -> None:
    made = plan(job(**{"run": "", **KEYS[case]}) + "\n" + GROUPS)
    check_scripts(made, "groups.sh", standalone=standalone)


def check_scripts(made: Plan, second: str, *, standalone: bool) -> None:
    bundle = render(made, templates(), standalone=standalone)
    scripts = [file for file in bundle.files if file.path.endswith((".sh", ".sbatch"))]
    assert {"job.sbatch", second} < {file.path for file in scripts}
    for file in scripts:
        for words in (["bash", "-n"], [shellcheck(), "--shell=bash", "-"]):
            assert complaints(file.content, *words) == "", file.path
