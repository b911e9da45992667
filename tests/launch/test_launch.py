"""How the ranks are started: flags that the launchers know, and nothing expanded too early."""

from __future__ import annotations

import re
import subprocess
from functools import cache

import pytest

from jobgen import payload
from jobgen.errors import Invalid
from jobgen.model.launchers import ALIASES, DEFAULT, LAUNCHERS, SINGLE
from jobgen.model.plan import Plan
from jobgen.model.settings import Launcher
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan
from tests.waiting import HANG


def node(found: Plan) -> str:
    """The end of node.sh: what starts the launcher."""
    return next(step.text for step in found.steps if step.name == "launch")


def batch(found: Plan) -> str:
    return render(found, templates())["job.sbatch"].content.decode()


def test_every_rank_starts_through_the_same_file() -> None:
    for name in LAUNCHERS:
        text = node(plan(job(launcher=name)))
        ends = 'bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"'
        assert text.endswith(ends), name


def test_what_differs_between_nodes_is_expanded_on_the_node() -> None:
    for name in LAUNCHERS:
        for extra in ("", "rdzv: static") if name == "torchrun" else ("",):
            found = plan(job(launcher=f"{{type: {name}{', ' + extra if extra else ''}}}"))
            assert "SLURM_NODEID" not in batch(found)
            assert "SLURM_PROCID" not in batch(found)
            assert "SLURM_LOCALID" not in batch(found)


def test_torchrun_is_told_what_it_would_guess() -> None:
    text = node(plan())
    assert "is_host=$((SLURM_NODEID == 0)),join_timeout=900,read_timeout=120" in text
    assert '--local-addr="$SLURMD_NODENAME"' in text
    assert '--rdzv-id="$RDZV_ID"' in text
    assert "--max-restarts=0" in text


def test_the_static_rendezvous_follows_the_nodes() -> None:
    text = node(plan(job(launcher="{type: torchrun, rdzv: static}")))
    assert '--node-rank="$SLURM_NODEID"' in text
    assert "rdzv-backend" not in text


def test_names_of_the_training_network_are_used_on_both_sides() -> None:
    found = plan(job(), GPUS + "rdzv_host_suffix: -ib\n")
    assert found.head.value == "${HOSTS[0]}-ib"
    assert '--local-addr="$SLURMD_NODENAME"-ib' in node(found)


def test_on_this_machine_everybody_meets_on_loopback() -> None:
    found = plan(job(), LOCAL)
    assert found.head.value == "127.0.0.1"
    assert "--local-addr=127.0.0.1" in node(found)


def test_nothing_falls_back_to_localhost() -> None:
    for name in LAUNCHERS:
        assert "localhost" not in batch(plan(job(launcher=name)))


def test_a_range_of_nodes_is_torchruns_too() -> None:
    text = node(plan(job(nodes="2:4", launcher="{type: torchrun, max_restarts: 5}")))
    assert "--nnodes=2:4" in text
    assert "--max-restarts=5" in text


def test_arguments_of_the_launcher_are_expanded_on_the_node() -> None:
    launcher = "{type: torchrun, args: [--log-dir, $JOBGEN_LOG_DIR/a b, --role=$$x]}"
    assert '--log-dir "${JOBGEN_LOG_DIR}/a b" "--role=\\$x"' in node(plan(job(launcher=launcher)))


def test_srun_binds_to_cores_where_no_gpu_says_which() -> None:
    def bind(cluster: str, **keys: str) -> str:
        found = plan(job(launcher="srun", **keys), cluster)
        words = " ".join(str(word) for line in found.start for word in line)
        return re.findall(r"--cpu-bind=(\w+)", words)[0]

    assert bind(CPUS, procs_per_node="2") == bind(GPUS, gpus_per_node="1") == "cores"
    assert bind(GPUS) == bind(GPUS, gpus_per_node="4") == "none"
    unknown = GPUS.replace(", cpus: 128", "")
    assert bind(unknown, gpus_per_node="0", procs_per_node="1") == "none"


def test_gpus_are_never_bound() -> None:
    for name in LAUNCHERS:
        words = [str(word) for line in plan(job(launcher=name)).start for word in line]
        # mpirun's own srun takes those of the job
        wanted = [] if name == "mpirun" else ["--gpus-per-node=8"]
        assert [w for w in words if w.startswith("--gpus")] == wanted
        assert [w for w in words if "bind=" in w and "gpu" in w] in ([], ["--gpu-bind=none"])


def test_deepspeed_needs_no_ssh_unless_it_is_asked_to() -> None:
    found = plan(job(launcher="deepspeed"))
    assert '--no_ssh --node_rank="$SLURM_NODEID"' in node(found)
    assert "JOBGEN_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-unset}" in node(found)
    assert found.start[0][0] == "srun"
    over = plan(job(launcher="{type: deepspeed, ssh: pdsh}", preflight="off"))
    assert "--launcher=pdsh" in node(over)
    assert over.start[0][0] == "bash"
    assert [f.path for f in over.files] == ["deepspeed_env.sh"]


def test_one_node_is_never_reached_by_ssh() -> None:
    found = plan(job(nodes="1", launcher="{type: deepspeed, ssh: pdsh}"))
    assert "--no_ssh" in node(found)
    assert found.start[0][0] == "srun"


def test_the_hostfile_is_made_from_the_allocation_in_deepspeeds_grammar() -> None:
    (step,) = [s for s in plan(job(launcher="deepspeed")).steps if s.name == "hostfile"]
    script = f"HOSTS=(n1 n2); JOBGEN_STATE_DIR=.; {step.text}; cat hostfile; rm hostfile"
    done = subprocess.run(["bash", "-c", script], cwd="/tmp", capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines == ["n1 slots=8", "n2 slots=8"]
    assert all(re.fullmatch(r"\S+\s+slots=\d+", line) for line in lines)


@pytest.mark.parametrize(("launcher", "copy"), [("deepspeed", "ds_config.json")])
def test_a_deepspeed_configuration_is_copied_and_named(launcher: str, copy: str) -> None:
    text = job(launcher=f"{{type: {launcher}, config: conf/ds.json}}", preflight="off")
    found = plan(text, texts={"conf/ds.json": b"{}"})
    assert [(f.path, f.content) for f in found.files] == [(copy, b"{}")]
    assert found.env["JOBGEN_DEEPSPEED_CONFIG"].value == f"$JOBGEN_BUNDLE_DIR/{copy}"
    unread = plan(text)
    assert unread.env["JOBGEN_DEEPSPEED_CONFIG"].value == "$JOBGEN_WORK_DIR/conf/ds.json"


def test_accelerate_always_names_a_file_so_that_no_stray_one_is_read() -> None:
    found = plan(job(launcher="accelerate"))
    assert '--config_file="$JOBGEN_BUNDLE_DIR/accelerate.yaml" --multi_gpu' in node(found)
    assert "--num_processes=16" in node(found)
    assert '--machine_rank="$SLURM_NODEID"' in node(found)
    text = job(launcher="{type: accelerate, config: a.yaml}", preflight="off")
    own = plan(text, texts={"a.yaml": b"x: 1\n"})
    assert "--multi_gpu" not in node(own)
    assert "--deepspeed_multinode_launcher=standard" in node(own)
    assert [(f.path, f.content) for f in own.files] == [("accelerate.yaml", b"x: 1\n")]


def test_accelerate_starts_one_rank_without_a_world() -> None:
    found = plan(job(nodes="1", gpus_per_node="1", launcher="accelerate"))
    assert "--multi_gpu" not in node(found)
    assert "RANK=0" in node(found)


def test_rows_name_keys_of_the_form_and_blocks_of_rank_sh() -> None:
    blocks = set(re.findall(r"(?m)^#if (\w+)$", payload.text("rank.sh")))
    for facts in LAUNCHERS.values():
        assert Launcher.keys.keys() >= set(facts.settings)
        assert bool(facts.config_format) == ("config" in facts.settings)
        assert blocks >= set(facts.blocks)
    assert {DEFAULT, SINGLE, *ALIASES.values()} <= LAUNCHERS.keys()


@cache
def known_flags(*command: str) -> frozenset[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG)
    return frozenset(re.findall(r"--[a-zA-Z][\w-]*", done.stdout))


HELP = {
    "torchrun": ("python", "-m", "torch.distributed.run", "--help"),
    "deepspeed": ("deepspeed", "--help"),
    "accelerate": ("accelerate", "launch", "--help"),
}


@pytest.mark.train("torch", "deepspeed", "accelerate")
@pytest.mark.parametrize(
    "launcher",
    [
        "torchrun",
        "{type: torchrun, rdzv: static}",
        "deepspeed",
        "{type: deepspeed, ssh: pdsh}",
        "accelerate",
        "{type: accelerate, config: a.yaml}",
    ],
)
def test_every_flag_is_one_that_the_launcher_knows(launcher: str) -> None:
    import sys
    from pathlib import Path

    found = plan(job(launcher=launcher))
    program, *rest = HELP[found.launcher.value]
    path = sys.executable if program == "python" else str(Path(sys.executable).with_name(program))
    text = node(found).replace("--no-python bash", "--no-python")
    used = set(re.findall(r"(?<![\w-])--[a-zA-Z][\w-]*", text))
    known = known_flags(path, *rest)
    assert used
    assert used <= known


@pytest.mark.parametrize(
    ("launcher", "command"),
    [
        ("{type: torchrun, command: uv run torchrun}", "exec uv run torchrun --nnodes=2 "),
        (
            "{type: torchrun, rdzv: static, command: [$VENV/bin/torchrun]}",
            'exec "${VENV}/bin/torchrun" --nnodes=2 ',
        ),
        ("{type: deepspeed, command: uv run deepspeed}", "exec uv run deepspeed --hostfile="),
        ("{type: accelerate, command: uv run accelerate}", "exec uv run accelerate launch "),
        ("{type: accelerate, command: a/accelerate launch}", "exec a/accelerate launch --config"),
        (
            "{type: torchrun, command: python -m torch.distributed.run}",
            "exec python -m torch.distributed.run --nnodes=2",
        ),
    ],
)
def test_command_stands_in_place_of_the_launchers_name(launcher: str, command: str) -> None:
    text = node(plan(job(launcher=launcher)))
    assert command in text


@pytest.mark.parametrize("word", ["no such", 'a"b', "$NOT_HERE/`x`", "uv"])
def test_the_first_word_of_a_command_is_looked_for(word: str) -> None:
    launcher = f"{{type: torchrun, command: ['{word}', torchrun]}}"
    first = node(plan(job(launcher=launcher))).split("\n")[0]
    script = f'die() {{ echo "$2"; exit "$1"; }}\nNOT_HERE=/nowhere\n{first}'
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, env={"PATH": "/nowhere"}
    )
    assert (done.returncode, done.stderr) == (127, "")
    assert done.stdout.startswith(f"{word} is not on PATH")


@pytest.mark.parametrize("name", [n for n in LAUNCHERS if n not in ("srun", "mpirun")])
def test_srun_takes_the_words_that_are_meant_for_it(name: str) -> None:
    text = batch(plan(job(launcher=f"{{type: {name}, srun_args: [--auto-resume=1, --x=$Y]}}")))
    srun = text[text.index("srun --nodes") :].partition("node.sh")[0]
    assert "--auto-resume=1" in srun
    assert '"--x=${Y}"' in srun


@pytest.mark.parametrize(
    "launcher",
    [
        "{type: deepspeed, ssh: pdsh, srun_args: [--x]}",
        "{type: plain, command: uv run torchrun}",
        "{type: srun, srun_args: [--x]}",
    ],
)
def test_a_word_that_nothing_would_read_is_refused(launcher: str) -> None:
    with pytest.raises(Invalid):
        plan(job(launcher=launcher))


def test_a_line_break_over_ssh_names_its_variable() -> None:
    with pytest.raises(Invalid, match="A contains a line break") as error:
        plan(job(launcher="{type: deepspeed, ssh: pdsh}", env='{A: "1\\n2"}'))
    assert "export A under setup:" in error.value.problems[0].hint
