"""How a job that is asked to stop gets its program to save, and what the plan warns of."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve.program import read, wrap
from tests.golden.cases import templates
from tests.resolve.made import GPUS, job, plan

REQUEUE = "{requeue: true}"
SHAPE = "{layers: 8, hidden: 64, heads: 8}"
MEGATRON = f"{{framework: megatron, strategy: zero1, model: {SHAPE}, micro_batch: 1, seq_len: 64}}"
WRAPPER = '"$JOBGEN_BUNDLE_DIR/save_on_stop.py"'


def files(made: Plan) -> dict[str, str]:
    return {file.path: file.content.decode() for file in render(made, templates()).files}


def warned(made: Plan) -> list[str]:
    return [check.message for check in made.checks if check.code == "J257"]


@pytest.mark.parametrize("framework", ["hf-trainer", "lightning"])
def test_a_framework_that_reads_no_stop_file_is_wrapped(framework: str) -> None:
    train = f"{{framework: {framework}, strategy: ddp}}"
    made = plan(job(checkpoint=REQUEUE, train=train, run="train.py fit"), stop_file_named=False)
    rendered = files(made)
    assert f"exec python -u {WRAPPER} train.py fit" in rendered["program.sh"]
    assert "save_on_stop.py" in rendered
    assert warned(made) == []
    without = files(plan(job(train=train, run="train.py fit")))
    assert "save_on_stop.py" not in without
    assert "save_on_stop.py" not in without["program.sh"]


def test_what_cannot_be_wrapped_is_warned_of() -> None:
    train = "{framework: hf-trainer, strategy: ddp}"
    keys = {"checkpoint": REQUEUE, "train": train, "launcher": "torchrun"}
    made = plan(job(run="uv run train.py", **keys), stop_file_named=False)
    assert "save_on_stop.py" not in files(made)
    assert len(warned(made)) == 1


@pytest.mark.parametrize(
    ("run", "wrapped"),
    [
        ("train.py --lr 1", f"exec python -u {WRAPPER} train.py --lr 1"),
        ("-m a.b fit", f"exec python -u {WRAPPER} -m a.b fit"),
        ("A=1 python3 -W ignore t.py", f"A=1 exec python3 -u -W ignore {WRAPPER} t.py"),
        ("uv run python t.py", f"exec uv run python {WRAPPER} t.py"),
        ("python -um a.b", None),
        ("python -c 'import t'", None),
        ("bash train.sh", None),
        ("python t.py | tee log", None),
        ("python a.py; python b.py", None),
    ],
)
def test_the_wrapper_stands_before_the_script_or_the_module(run: str, wrapped: str | None) -> None:
    made = wrap(read(run), "save_on_stop.py")
    assert (made and made.text) == wrapped


def test_megatron_gets_its_signal_on_each_rank() -> None:
    run = "pretrain_gpt.py --num-workers 2"
    made = plan(job(checkpoint=REQUEUE, train=MEGATRON, run=run), stop_file_named=False)
    rendered = files(made)
    assert made.stop is not None
    assert (made.stop.signal, made.stop.ranks) == ("USR1", "TERM")
    assert "--exit-signal-handler" in rendered["program.sh"]
    assert 'bash "$JOBGEN_BUNDLE_DIR/signal_ranks.sh" TERM 300' in rendered["job.sbatch"]
    assert "signal_ranks.sh" in rendered
    assert warned(made) == []
    other = plan(job(checkpoint=REQUEUE, train=MEGATRON, run=f"{run} --exit-signal SIGUSR2"))
    assert other.stop is not None
    assert other.stop.ranks == "USR2"
    by_file = plan(job(checkpoint="{requeue: true, to: file}", train=MEGATRON, run=run))
    assert "signal_ranks.sh" not in files(by_file)


def test_torchtitan_is_said_to_save_at_its_interval_only() -> None:
    train = "{framework: torchtitan, strategy: fsdp2}"
    run = "-m torchtitan.train --module llama3 --config llama3_8b"
    made = plan(job(checkpoint=REQUEUE, train=train, run=run), stop_file_named=False)
    assert any("handles neither signals nor a stop file" in note.message for note in made.notes)
    assert warned(made) == []
    assert "--checkpoint.enable" in files(made)["program.sh"]
    assert "stop file" not in str(plan(job(train=train, run=run)).notes)


def test_ranks_get_the_signal_that_the_job_names() -> None:
    made = plan(job(checkpoint="{signal: USR2, to: ranks}"), stop_file_named=False)
    script = files(made)["job.sbatch"]
    assert made.stop is not None
    assert made.stop.ranks == "USR2"
    assert "--signal=B:USR2@300" in script
    assert 'signal_ranks.sh" USR2 300 </dev/null &' in script
    assert warned(made) == []
    assert "signal_ranks" not in files(plan(job(checkpoint="{signal: USR2}")))["job.sbatch"]


def test_a_job_that_nobody_asks_to_stop_is_rendered_as_before() -> None:
    text = files(plan())["job.sbatch"]
    assert not any(word in text for word in ("ask_to_save", "PreemptTime", "signal_ranks"))


def test_a_stop_file_that_no_file_names_is_a_warning_in_the_plan() -> None:
    text = job(checkpoint=REQUEUE)
    (message,) = warned(plan(text, stop_file_named=False))
    assert "after a requeue it repeats" in message
    assert (
        "after a requeue it repeats"
        not in warned(plan(job(checkpoint="{}"), stop_file_named=False))[0]
    )
    for known in (True, None):
        assert warned(plan(text, stop_file_named=known)) == []
    assert warned(plan(stop_file_named=False)) == []
    by_run = job(checkpoint=REQUEUE, run="python train.py --stop-file $JOBGEN_STOP_FILE")
    assert warned(plan(by_run, stop_file_named=False)) == []


def test_the_plan_shows_the_grace_as_it_is_written_and_how_often_the_job_starts() -> None:
    text = job() + "checkpoint:\n  requeue: true\n  grace: 10m\n  max_requeues: 3\n"
    made = plan(text)
    stop, requeue = made.other["checkpoint"], made.other["requeue"]
    assert (stop.value, str(stop.place)) == ("USR1 10m + 30s for the requeue", "job.yaml:7")
    assert str(made.directives["signal"].place) == "job.yaml:7"
    assert (requeue.value, str(requeue.place)) == ("max_requeues 3", "job.yaml:8")
    assert requeue.why == "at most 4 starts"
    by_default = plan(job() + "checkpoint:\n  requeue: true\n").other
    assert by_default["checkpoint"].value == "USR1 5m + 30s for the requeue"
    assert str(by_default["checkpoint"].place) == "job.yaml:5"
    assert by_default["requeue"].value == "max_requeues 10"
    assert str(by_default["requeue"].place) == "rule requeue"
    once = plan(job() + "checkpoint:\n  grace: 1m30s\n").other
    assert once["checkpoint"].value == "USR1 1m30s"
    assert "requeue" not in once


def test_gpu_hours_count_every_start_that_requeues_allow() -> None:
    once = plan(job(checkpoint="{grace: 5m}"))
    assert once.gpu_hours == once.shape.gpu_hours == 32
    assert plan(job(checkpoint="{requeue: true, max_requeues: 3}")).gpu_hours == 4 * 32
    array = plan(job(checkpoint=REQUEUE, array="0-9"))
    assert array.gpu_hours == 11 * 10 * 32


def test_an_unknown_way_to_ask_is_refused() -> None:
    with pytest.raises(Invalid) as caught:
        plan(job(checkpoint="{to: rank}"), GPUS)
    (problem,) = caught.value.problems
    assert "ranks" in problem.hint
