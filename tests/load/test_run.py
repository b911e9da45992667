"""What ``run:`` may hold: no second launcher, one distributed program."""

from __future__ import annotations

import textwrap

import pytest

from jobgen.errors import Diagnostic
from jobgen.load import check

KEYS = {"name": "demo", "nodes": "2", "gpus_per_node": "8", "time": "2h"}


def lint(run: str, launcher: str = "torchrun", **keys: str) -> list[Diagnostic]:
    """What lint reports about a job with this command."""
    block = "|\n" + textwrap.indent(run, "  ")
    lines = {**KEYS, **keys, "launcher": launcher, "run": block}
    text = "".join(f"{key}: {value}\n" for key, value in lines.items() if value)
    return list(check(text, "job.yaml").problems)


def errors(run: str, launcher: str = "torchrun", **keys: str) -> list[str]:
    """``CODE:LINE`` of each error, where the first line of ``run`` is line 1."""
    return [f"{p.code}:{line(p, launcher, keys)}" for p in lint(run, launcher, **keys) if bad(p)]


def bad(problem: Diagnostic) -> bool:
    return problem.severity == "error"


def line(problem: Diagnostic, launcher: str, keys: dict[str, str]) -> int:
    above = sum(1 for value in {**KEYS, **keys, "launcher": launcher, "run": "|"}.values() if value)
    assert problem.place
    return problem.place.line - above


# ---- a launcher inside a launcher

NESTED = {
    "torchrun train.py": "train.py",
    "torchrun --nproc-per-node=8 train.py --lr 1": "train.py --lr 1",
    "torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES train.py --lr 1": "train.py --lr 1",
    "torchrun --standalone train.py": "train.py",
    "torchrun --nproc-per-node 8 -m pkg.train --lr 1": "python -m pkg.train --lr 1",
    "torchrun --nproc-per-node=8 --no-python ./train.sh a": "./train.sh a",
    "torchrun $DIST_ARGS train.py $ARGS": "train.py $ARGS",
    "/opt/conda/bin/torchrun train.py": "train.py",
    '"$CONDA_PREFIX/bin/torchrun" train.py': "train.py",
    "$(which torchrun) --nproc_per_node 2 train.py": "train.py",
    "python /opt/conda/bin/torchrun --nproc_per_node 2 train.py": "train.py",
    "python -m torch.distributed.run --nproc-per-node=8 train.py": "train.py",
    "-m torch.distributed.run --nproc-per-node=8 train.py": "train.py",
    "python3.11 -u -W ignore -m torch.distributed.launch --use_env train.py -x": "train.py -x",
    "python -mtorch.distributed.run train.py": "train.py",
    "$PYTHON -m torch.distributed.run train.py": "train.py",
    "python -m accelerate.commands.launch --num_processes 8 train.py": "train.py",
    "accelerate launch --multi_gpu --config_file a.yaml --num_processes 8 train.py": "train.py",
    "accelerate launch -m axolotl.cli.train c.yml": "python -m axolotl.cli.train c.yml",
    "accelerate-launch train.py": "train.py",
    "deepspeed --num_gpus=8 train.py --deepspeed ds.json": "train.py --deepspeed ds.json",
    "deepspeed --module pkg.train": "python -m pkg.train",
    "python -m deepspeed.launcher.runner train.py": "train.py",
    "srun python train.py --lr 1": "python train.py --lr 1",
    "srun -N2 -n 16 --overlap ./train.sh": "./train.sh",
    "srun -l torchrun --nproc-per-node 8 train.py": "train.py",
    "mpirun -np 16 -x PATH --allow-run-as-root python train.py": "python train.py",
    "mpiexec -n 4 python train.py": "python train.py",
    "composer -n 8 train.py config.yaml": "train.py config.yaml",
    "horovodrun -np 4 python train.py": "python train.py",
    "python ./deepy.py train.py conf.yml": "train.py conf.yml",
    # hidden
    "A=1 B='x y' torchrun train.py --lr 1": "A=1 B='x y' train.py --lr 1",
    "env NCCL_DEBUG=WARN torchrun train.py": "NCCL_DEBUG=WARN train.py",
    "exec torchrun train.py": "train.py",
    "time torchrun train.py": "train.py",
    "time -p torchrun train.py": "train.py",
    "/usr/bin/time -v torchrun train.py": "train.py",
    "nohup torchrun train.py &": "train.py",
    "numactl --cpunodebind=0 -m 0 torchrun train.py": "train.py",
    "taskset -c 0-7 torchrun train.py": "train.py",
    "timeout -k 5 4h torchrun train.py": "train.py",
    "nsys profile -o report torchrun train.py": "train.py",
    "uv run torchrun train.py": "train.py",
    "uv run --with deepspeed torchrun train.py": "train.py",
    "uvx torchrun train.py": "train.py",
    "uv run -m torch.distributed.run train.py": "train.py",
    "conda run -n deepspeed --no-capture-output torchrun train.py": "train.py",
    "apptainer exec --nv -B /data image.sif torchrun train.py": "train.py",
    "./bind.sh torchrun train.py": "train.py",
    "bash bind.sh torchrun train.py": "train.py",
    "bash -c 'torchrun train.py --lr 1'": "train.py --lr 1",
    'bash -lc "source x && exec torchrun train.py"': "train.py",
    "eval torchrun train.py": "train.py",
    "ssh node1 'cd x && torchrun train.py'": "train.py",
    "sudo -u me A=1 torchrun train.py": "A=1 train.py",
    "bash <<E\ntorchrun train.py\nE": "train.py",
    "torchrun train.py 2>&1 | tee log": "train.py",
    "torchrun \\\n  --nproc-per-node=8 \\\n  train.py \\\n  --lr 1": "train.py --lr 1",
    "LAUNCHER='torchrun --nnodes 2'\n$LAUNCHER train.py": "train.py",
    "L='python -u -m torch.distributed.run'\nCMD=\"$L train.py\"\necho $CMD\n$CMD": "train.py",
    "CMD='torchrun train.py'\nbash -c \"$CMD\"": "train.py",
    "CMD='torchrun train.py'\neval $CMD": "train.py",
    'CMD=(torchrun --nnodes 2 train.py)\n"${CMD[@]}"': "train.py",
    "L=${LAUNCHER:-torchrun}\n$L train.py": "train.py",
    "set -e\ncd src && torchrun train.py": "train.py",
    "nvidia-smi; torchrun train.py": "train.py",
    "if [ -f x ]; then\n  torchrun train.py\nfi": "train.py",
    "for lr in 1 2; do torchrun train.py --lr $lr; done": "train.py --lr $lr",
    "main() {\n  torchrun train.py\n}\nmain": "train.py",
    "case $MODE in\n  a) torchrun train.py ;;\nesac": "train.py",
    "( torchrun train.py )": "train.py",
    "! torchrun train.py": "train.py",
}


@pytest.mark.parametrize("run", NESTED)
@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_a_launcher_inside_a_launcher_is_refused_with_the_line_to_write(
    run: str, launcher: str
) -> None:
    (problem,) = [p for p in lint(run, launcher) if bad(p)]
    assert problem.code == "J306"
    assert f"'{NESTED[run]}'" in problem.hint


def test_the_line_inside_the_block_is_named() -> None:
    assert errors("set -e\n\nmodule load x\nif true; then\n  torchrun train.py\nfi") == ["J306:5"]
    assert errors("set -e\nbash -c '\n  cd x\n  torchrun train.py\n'") == ["J306:4"]
    assert errors("C='torchrun train.py'\n\n$C --lr 1") == ["J306:3"]


def test_a_one_line_command_is_pointed_at() -> None:
    job = "name: a\nnodes: 2\ntime: 1h\nlauncher: srun\nrun: exec torchrun train.py\n"
    (problem,) = check(job, "job.yaml").problems
    assert problem.place
    assert (problem.place.line, problem.place.col, problem.place.end_col) == (5, 11, 19)


ALONE = [
    "train.py --launcher torchrun",
    "echo torchrun train.py",
    "torchrun --version\npython train.py",
    "which torchrun\npython train.py",
    "command -v torchrun >/dev/null || exit 1\npython train.py",
    "pip install deepspeed accelerate\npython train.py",
    "accelerate env\npython train.py",
    "accelerate config default\npython train.py",
    "srun --version\npython train.py",
    "# torchrun train.py\npython train.py",
    "cat > x.sh <<EOF\ntorchrun train.py\nEOF\npython train.py",
    "python train.py --note 'torchrun train.py'",
    "conda run -n accelerate python train.py",
    "uv run --with deepspeed --extra mpirun python train.py",
    "python -m deepspeed_tools train.py",
    "tune run full_finetune_distributed --config c.yaml",
    "./train.sh torchrun",
    "bash train.sh --launcher torchrun",
    "LAUNCHER=torchrun\npython train.py --launcher $LAUNCHER",
    "L=torchrun\nL=python\n$L train.py",
]


@pytest.mark.parametrize("run", ALONE)
def test_the_name_of_a_launcher_alone_is_no_launcher(run: str) -> None:
    assert lint(run) == []


def test_tune_run_is_a_launcher_only_with_torchruns_options() -> None:
    run = "tune run --nnodes 2 --nproc_per_node 8 full_finetune_distributed --config c.yaml"
    (problem,) = lint(run)
    assert "write 'full_finetune_distributed --config c.yaml'" in problem.hint
    assert "set launcher: torchtune" in problem.hint


def test_a_cluster_inside_a_rank_is_refused() -> None:
    (problem,) = lint("ray start --head\npython train.py")
    assert problem.code == "J306"
    assert "launcher: plain" in problem.hint


@pytest.mark.parametrize(
    "run",
    [
        'if [ "$RANK" = 0 ]; then torchrun --standalone eval.py; fi',
        "[[ $SLURM_LOCALID == 0 ]] && torchrun --nnodes 2 train.py",
        "if ((SLURM_PROCID == 0)); then srun --overlap -N2 ./clean.sh; fi",
        "[ $LOCAL_RANK != 0 ] && exit 0\ntorchrun train.py",
        'is_main() { [ "$RANK" = 0 ]; }\nif is_main; then torchrun eval.py; fi',
    ],
)
def test_a_launcher_that_some_ranks_start_is_only_a_warning(run: str) -> None:
    assert [(p.code, p.severity) for p in lint(run)] == [("J306", "warning")]


@pytest.mark.parametrize("run", [run for run in NESTED if "nnodes" in run])
def test_plain_is_for_programs_that_bring_their_launcher(run: str) -> None:
    assert lint(run, "plain") == []
    assert lint(run, "none") == []


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        ("torchrun --nnodes=2 --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT train.py", True),
        ("torchrun $ARGS train.py", True),
        ("torchrun --nproc-per-node=8 train.py", False),
        ("srun python train.py", False),
        ("mpirun -np 16 python train.py", False),
    ],
)
def test_plain_is_offered_only_where_one_training_would_run(run: str, offered: bool) -> None:
    (problem,) = lint(run, "torchrun")
    assert ("launcher: plain" in problem.hint) is offered


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        ("torchrun --nnodes=2 --rdzv_backend=c10d train.py", False),
        ("torchrun --nnodes=2 --rdzv_endpoint=localhost:29500 train.py", False),
        ("accelerate launch --num_processes 16 --config_file a.yaml train.py", False),
        ("accelerate launch --num_machines 2 --main_process_ip $HEAD train.py", True),
        ("srun $ARGS python train.py", False),
    ],
)
def test_plain_is_offered_only_if_the_nodes_find_each_other(run: str, offered: bool) -> None:
    problem = lint(run, "torchrun")[0]
    assert ("launcher: plain" in problem.hint) is offered


KEPT = {
    "torchrun --nproc_per_node=4 train.py": "gpus_per_node: 4",
    "torchrun --nproc-per-node 8 --nnodes 4 train.py": "nodes: 4",
    "torchrun --nnodes=1:4 train.py": "nodes: 1:4",
    "torchrun --nproc_per_node=gpu --nnodes=2 train.py": "",
    "torchrun --max_restarts=3 train.py": "launcher: {type: torchrun, max_restarts: 3}",
    "torchrun --tee 3 train.py": "launcher: {type: torchrun, args: [--tee=3]}",
    "deepspeed --num_gpus 4 train.py": "gpus_per_node: 4 and launcher: deepspeed",
    "accelerate launch --num_machines 4 --num_processes 16 train.py": (
        "nodes: 4, gpus_per_node: 4 and launcher: accelerate"
    ),
    "accelerate launch --config_file a.yaml train.py": (
        "launcher: {type: accelerate, config: a.yaml}"
    ),
    "srun -N4 --ntasks-per-node=4 python train.py": (
        "nodes: 4, gpus_per_node: 4 and launcher: srun"
    ),
    "mpirun -np 8 python train.py": "gpus_per_node: 4 and launcher: mpirun",
    "mpiexec.hydra -np 8 python train.py": "gpus_per_node: 4",
    "source venv/bin/activate && torchrun train.py": "setup: source venv/bin/activate",
    "set -e\nmodule load cuda\nA=1\nsource x/activate\ntorchrun train.py": (
        "setup: [module load cuda, export A=1, source x/activate]"
    ),
    'eval "$(conda shell.bash hook)"; torchrun train.py': (
        "setup: 'eval \"$(conda shell.bash hook)\"'"
    ),
    "cd src && torchrun train.py": "",
    "docker run img torchrun train.py": "container: {image: img, runtime: docker}",
    "apptainer exec --nv x.sif torchrun --nproc_per_node=4 train.py": (
        "gpus_per_node: 4 and container: {image: x.sif, runtime: apptainer}"
    ),
    "conda run -n llm torchrun train.py": "setup: source PATH/bin/activate llm",
}


@pytest.mark.parametrize("run", KEPT)
def test_the_line_to_write_keeps_what_the_command_said(run: str) -> None:
    problem = next(p for p in lint(run, "torchrun") if p.code == "J306")
    said = problem.hint.partition(";")[0].partition(" and set ")[2]
    assert said == KEPT[run]


def test_a_command_among_others_is_replaced_in_its_place() -> None:
    (problem,) = lint("cd src && torchrun train.py", "")
    assert problem.hint.startswith("write 'train.py' in its place and set launcher: torchrun")


def test_ranks_without_gpus_are_procs() -> None:
    (problem,) = lint("torchrun --nproc_per_node=4 train.py", gpus_per_node="0")
    assert "set procs_per_node: 4" in problem.hint


def test_another_launcher_that_jobgen_has_is_offered() -> None:
    (problem,) = lint("accelerate launch train.py", "torchrun")
    assert "launcher: accelerate" in problem.hint
    (problem,) = lint("torchrun train.py", "torchrun")
    assert "launcher: torchrun" not in problem.hint


@pytest.mark.parametrize(
    "run",
    [
        "torchrun --nproc-per-node=8 train.py",
        "deepspeed --num_gpus 8 train.py",
        "deepspeed --hostfile hosts train.py",
        "accelerate launch train.py",
        "python -m torch.distributed.run train.py",
        "srun python train.py",
        "mpirun -np 16 python train.py",
    ],
)
def test_plain_on_several_nodes_with_a_launcher_of_one_node_is_a_warning(run: str) -> None:
    (problem,) = lint(run, "plain")
    assert (problem.code, problem.severity) == ("J309", "warning")
    assert lint(run, "plain", nodes="1") == []


@pytest.mark.parametrize("run", ["torchrun train.py", "python -m torch.distributed.run train.py"])
def test_without_a_launcher_key_several_ranks_are_refused_and_one_is_right(run: str) -> None:
    assert errors(run, "") == ["J306:1"]
    assert errors(run, "", nodes="1") == ["J306:1"]
    assert lint(run, "", nodes="1", gpus_per_node="1") == []
    assert lint(run, "", nodes="1", gpus_per_node="0") == []
    assert lint(run, "", nodes="1", gpus_per_node="") == [], (
        "how many GPUs follows from the cluster"
    )
    assert errors(run, "{rdzv: static}", nodes="2", gpus_per_node="1") == ["J306:1"]


# ---- two distributed programs

TWO = {
    "python train.py\npython eval.py": "J223:2",
    "train.py\neval.py": "J223:2",
    "python train.py && python eval.py": "J223:1",
    "python train.py; python eval.py --ckpt last": "J223:1",
    "set -e\ncd src\npython train.py --phase 1\npython train.py --phase 2": "J223:4",
    "pip install -e .\npython -m pkg.train\n\npython -W ignore -m pkg.eval": "J223:4",
    "-m pkg.train\n-m pkg.eval": "J223:2",
    "python train.py\nrc=$?\npython eval.py\nexit $rc": "J223:3",
    "time python train.py\nuv run eval.py": "J223:2",
    "bash -c 'python train.py && python eval.py'": "J223:1",
    "bash -c '\n  python train.py\n  python eval.py\n'": "J223:3",
    "numactl -N 0 python train.py\nenv A=1 python eval.py": "J223:2",
    "python train.py --lr 1 \\\n  --wd 2\npython eval.py": "J223:3",
    "if python train.py; then\n  python eval.py\nfi": "J223:2",
    "{ python train.py; python eval.py; } 2>&1 | tee log": "J223:1",
    "for seed in 1 2 3; do\n  python train.py --seed $seed\ndone": "J223:2",
    "for c in configs/*.yaml; do python train.py $c; done": "J223:1",
    "CMD='python train.py'\n$CMD --phase 1\n$CMD --phase 2": "J223:3",
    "export MASTER_PORT=29511\npython train.py\npython eval.py": "J223:3",
    "python prepare.py\npython train.py\npython eval.py": "J223:3",
    "nvidia-smi\npython train.py 2>&1 | tee log\necho done\npython eval.py": "J223:4",
}


@pytest.mark.parametrize("run", TWO)
@pytest.mark.parametrize("launcher", ["torchrun", "{type: torchrun, rdzv: static}", "accelerate"])
def test_a_second_distributed_program_is_refused(run: str, launcher: str) -> None:
    assert errors(run, launcher) == [TWO[run]]


@pytest.mark.parametrize("launcher", ["srun", "deepspeed"])
def test_where_rank_0_holds_the_store_a_second_program_is_a_warning(launcher: str) -> None:
    (problem,) = lint("python train.py\npython eval.py", launcher)
    assert (problem.code, problem.severity) == ("J223", "warning")


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", ""])
def test_a_second_program_is_refused_on_one_node_too(launcher: str) -> None:
    assert errors("python train.py\npython eval.py", launcher) == ["J223:2"]
    assert errors("python train.py\npython eval.py", launcher, nodes="1") == ["J223:2"]
    assert errors("python train.py\npython eval.py", launcher, gpus_per_node="1") == ["J223:2"]


def test_the_message_names_both_and_the_hint_says_what_works() -> None:
    (problem,) = lint("python train.py\npython eval.py")
    assert "eval.py" in problem.message
    assert "train.py" in problem.message
    assert "after: [demo]" in problem.hint
    assert "setup:" in problem.hint
    assert '"$RANK"' in problem.hint


def test_of_three_programs_each_further_one_is_named() -> None:
    assert errors("python a.py\npython b.py\npython c.py") == ["J223:2", "J223:3"]


ONE = [
    "python train.py",
    "pip install -e .\npython train.py",
    "python setup.py build_ext --inplace\npython train.py",
    "python -m pip install -r requirements.txt\npython train.py",
    "python -c 'import torch; print(torch.__version__)'\npython train.py",
    "nvidia-smi\npython train.py",
    "wandb login\npython train.py",
    "python -m wandb login\npython train.py",
    "python -m torch.utils.collect_env\npython train.py",
    "python --version\npython train.py",
    "python train.py --help\npython train.py",
    "python prepare.py && python train.py",
    "python scripts/prepare_data.py\npython train.py",
    "python download_from_s3.py --data x\npython train.py",
    "python tools/preprocess.py\npython train.py",
    "python tokenize_corpus.py\npython train.py",
    "python train.py\npython zero_to_fp32.py ckpt out.pt",
    "python train.py\npython -m pkg.tools.convert_checkpoint out",
    "python train.py\npython plot_loss.py",
    'python train.py\nif [ "$RANK" = 0 ]; then python eval.py; fi',
    "python train.py\nif [[ $SLURM_PROCID -eq 0 ]]; then\n  python eval.py\nfi",
    "python train.py\nif ((RANK == 0)); then python eval.py; fi",
    "python train.py\n[ $RANK = 0 ] && python eval.py",
    "python train.py\n[ $RANK -ne 0 ] || python eval.py",
    "python train.py\n[ $RANK != 0 ] && exit 0\npython eval.py",
    "python train.py\ncase $RANK in 0) python eval.py ;; esac",
    "python train.py\nmain=$((RANK == 0))\nif [ $main = 1 ]; then python eval.py; fi",
    'if [ "$MODE" = eval ]; then python eval.py; else python train.py; fi',
    "case $MODE in\n  train) python train.py ;;\n  eval) python eval.py ;;\nesac",
    "python train.py || python train.py --resume",
    "[ -f last.pt ] && python eval.py\npython train.py",
    "[ -f last.pt ] && exec python train.py --resume last.pt\nexec python train.py",
    "until python train.py; do sleep 10; done",
    "for try in 1 2 3; do python train.py && break; done",
    "for x in 1; do python train.py; done",
    "while read c; do python train.py $c; done < list",
    "exec python train.py\npython eval.py",
    "python train.py\nexit $?\npython eval.py",
    "f() { python eval.py; }\npython train.py",
    "python gpu_log.py &\npython train.py",
    "python -m http.server &\npython train.py",
    "python train.py 2>&1 | python tools/filter.py",
    "python train.py\necho python eval.py",
    "# python eval.py\npython train.py",
    "python train.py --then 'python eval.py'",
    "SCRIPTS=(\n  train.py\n  eval.py\n)\npython train.py",
    "cat > x.py <<EOF\npython a.py\npython b.py\nEOF\npython train.py",
    "python train.py\nMASTER_PORT=29511 TORCHELASTIC_USE_AGENT_STORE=False python eval.py",
    "python train.py\nexport MASTER_PORT=29511\npython eval.py",
    "python train.py\nenv -u RANK -u WORLD_SIZE python eval.py",
    "python train.py\nWORLD_SIZE=1 RANK=0 python eval.py",
    "python train.py\nssh node1 'python eval.py'",
    "for i in 1 2; do\n  python train.py\n  exit 0\ndone",
    "python train.py\nunset RANK WORLD_SIZE LOCAL_RANK\npython eval.py",
    "bash prepare.sh\n./train.sh",
    "python3 - <<EOF\nprint(1)\nEOF\npython train.py",
]


@pytest.mark.parametrize("run", ONE)
@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_one_distributed_program_is_right(run: str, launcher: str) -> None:
    assert [p for p in lint(run, launcher) if p.code == "J223"] == []


def test_a_program_of_one_rank_meets_nobody() -> None:
    two = "python train.py\npython eval.py"
    assert errors(two, "torchrun", nodes="1", gpus_per_node="1") == []
    assert errors(two, "", nodes="1", gpus_per_node="1") == []
    assert errors(two, "plain") == []


def test_workers_that_take_their_own_share_meet_nobody() -> None:
    """Only srun starts such; under torchrun nobody does."""
    run = "python embed.py --shard $SLURM_PROCID\npython index.py --shard $SLURM_PROCID"
    assert lint(run, "srun") == []
    assert errors("python train.py --rank $RANK\npython eval.py --rank $RANK") == ["J223:2"]


# ---- quotes, arguments, variables that the batch script expands


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("train.py 'x", ["J213:1"]),
        ('python train.py\necho "a', ["J213:2"]),
        ("train.py # it's late", []),
        ("echo $'it\\'s'\ntrain.py", []),
        ('train.py --at "$(date "+%H")" --x "$(echo \'a)\')"', []),
        ("cat <<EOF > x\nit's\nEOF\ntrain.py", []),
        ('x="$(cat <<EOF\na\nEOF\n)"\ntrain.py $x', []),
        ("echo $(  # it's\n  date)\ntrain.py", []),
    ],
)
def test_an_open_quote_is_refused_where_it_opens(run: str, expected: list[str]) -> None:
    assert errors(run) == expected


def test_setup_is_shell_text_too() -> None:
    job = "name: a\nnodes: 2\ntime: 1h\nrun: train.py\n"
    one = check(job + "setup: module load 'x", "job.yaml").problems
    assert [(p.code, p.place and p.place.line) for p in one] == [("J213", 5)]
    two = check(job + 'setup:\n- module load x\n- source env.sh "$@"\n', "job.yaml").problems
    assert [(p.code, p.place and p.place.line) for p in two] == [("J164", 7)]


ARGUMENTS = {
    "python train.py $1": "$1",
    'python train.py "$@"': "$@",
    "python main.py $@": "$@",
    "train.py --lr ${1}": "${1}",
    'train.py "${@:2}"': "${@:2}",
    "train.py ${1%.*}": "${1%.*}",
    "train.py ${1?no config}": "${1?no config}",
    'train.py --name "run-$2"': "$2",
    'train.py "$(basename "$1")"': "$1",
    "train.py `basename $1`": "$1",
    "cat > x <<EOF\n$1\nEOF\ntrain.py x": "$1",
    'for x in "$@"; do echo $x; done\ntrain.py': "$@",
    'main() { train.py "$@"; }\nmain "$@"': "$@",
    "set -eo pipefail\ntrain.py $*": "$*",
}


@pytest.mark.parametrize("run", ARGUMENTS)
def test_arguments_that_run_does_not_have_are_refused(run: str) -> None:
    (problem,) = [p for p in lint(run) if bad(p)]
    assert problem.code == "J164"
    assert f"run: {ARGUMENTS[run]} is empty" in problem.message


@pytest.mark.parametrize(
    "run",
    [
        "awk '{print $1}' hosts\ntrain.py",
        "bash -c 'echo $1' _ x\ntrain.py",
        "train.py --cost \\$1",
        'train.py --cost "\\$1"',
        "cat > x.sh <<'EOF'\n$1\nEOF\ntrain.py",
        "f() { echo $1; }\nf x\ntrain.py",
        "function f {\n  echo $1 $@\n}\nf x\ntrain.py",
        "set -- a b\ntrain.py $1",
        "set a b\ntrain.py $1",
        "train.py ${1:-base}",
        "train.py ${1-base} ${2:+x}",
        "train.py $# $? $$ $0 $!",
        "# $1\ntrain.py",
        "nvidia-smi | awk '{ print $2 }' | sort\ntrain.py --x $(awk '{print $1}' f)",
        "ps aux | awk '{print $2}'\ntrain.py",
    ],
)
def test_what_is_no_argument_of_run_is_right(run: str) -> None:
    assert lint(run) == []


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ("env: {DATA: $PWD/data}", "note"),
        ("nccl: {env: {NCCL_TOPO_FILE: $PWD/topo.xml}}", "note"),
        ("checkpoint: {dir: $PWD/ckpt}", "note"),
        ("container: {image: a.sqsh, mounts: ['$PWD:/work']}", "note"),
        ("env: {CACHE: /tmp/cache.$LOCAL_RANK}", "warning"),
        ("env: {CACHE: /tmp/cache.$SLURM_NODEID}", "warning"),
        ("env: {DATA: $SCRATCH/data, COST: $$PWD}", ""),
    ],
)
def test_variables_that_the_batch_script_expands_are_pointed_out(more: str, severity: str) -> None:
    job = f"name: a\nnodes: 2\ntime: 1h\nrun: train.py\n{more}\n"
    found = [(p.code, p.severity) for p in check(job, "job.yaml").problems]
    assert found == ([("J165", severity)] if severity else [])
