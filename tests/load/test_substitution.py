"""``${X}`` and ``--set``: what is put in, what is left to the shell, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.cli.main import run as run_command
from tests.load.test_jobs import load, problem, problems, warned


def test_a_variable_is_put_in_as_it_was_written() -> None:
    more = "vars: {LR: 1e-5, N: 007}\nlabels: {lr: 'x-${LR}-${N}'}\nenv: {LR: '${LR}'}\n"
    job = load(more, run="train.py --lr ${LR}").value
    assert job.run == "train.py --lr 1e-5"
    assert job.labels == {"lr": "x-1e-5-007"}
    assert job.env == {"LR": "1e-5"}


def test_a_value_that_is_one_variable_takes_its_kind() -> None:
    job = load("vars: {N: 4, T: 3h}\n", nodes="${N}", time="${T}").value
    assert (job.nodes, job.time.seconds) == (4, 10800)


def test_the_name_of_a_job_may_hold_a_variable() -> None:
    assert load("vars: {LR: 1e-5}\n", name="llama-${LR}").value.name == "llama-1e-5"


def test_set_changes_a_variable_and_says_so() -> None:
    loaded = load("vars: {LR: 1e-5}\n", run="train.py ${LR}", sets=("LR=3e-5",))
    assert loaded.value.run == "train.py 3e-5"
    assert str(loaded.cite("vars", "LR")) == "--set LR"


@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("nodes=4", ("nodes",), 4),
        ("launcher.type=srun", ("launcher", "type"), "srun"),
        ("launcher=srun", ("launcher", "type"), "srun"),
        ("env.A=1e-5", ("env", "A"), "1e-5"),
        ("slurm.qos=high", ("slurm", "qos"), "high"),
        ("checkpoint.requeue=true", ("checkpoint", "requeue"), True),
        ("setup.0=b", ("setup", 0), "b"),
        ("outputs=[a, b]", ("outputs", 1), "b"),
        ("vars.LR=2", ("vars", "LR"), "2"),
    ],
)
def test_set_reaches_every_key_by_its_path(
    word: str, path: tuple[str | int, ...], value: object
) -> None:
    loaded = load("vars: {LR: 1}\nsetup: [a]\n", run="train.py ${LR}", sets=(word,))
    found: object = loaded.value
    for step in path:
        inner = isinstance(found, (dict, tuple))
        found = found[step] if inner else getattr(found, str(step))  # type: ignore[index]
    assert found == value
    assert loaded.cite(*path).kind == "option"


@pytest.mark.parametrize(
    ("short", "word", "mapping"),
    [
        ("launcher: torchrun", "launcher.max_restarts=3", "{type: torchrun, max_restarts: 3}"),
        ("workdir: src", "workdir.ignore=[x]", "{path: src, ignore: [x]}"),
        ("container: a:1", "container.mounts=[/d]", "{image: 'a:1', mounts: [/d]}"),
        ("track: [mlflow, WandB]", "track.wandb.project=p", "{mlflow: {}, wandb: {project: p}}"),
        ("setup: a", "setup.rank=b", "{node: a, rank: b}"),
        ("setup: [a, c]", "setup.rank=b", "{node: [a, c], rank: b}"),
        ("train: {lora: 16}", "train.lora.bits=4", "{lora: {rank: 16, bits: 4}}"),
        (
            "train: {strategy: fsdp2}",
            "train.strategy.reduce_dtype=fp32",
            "{strategy: {type: fsdp2, reduce_dtype: fp32}}",
        ),
        (
            "train: {strategy: zero3, offload: both}",
            "train.offload.to=cpu",
            "{strategy: zero3, offload: {what: both, to: cpu}}",
        ),
        ("train: {profile: 2-3}", "train.profile.ranks=[1]", "{profile: {steps: 2-3, ranks: [1]}}"),
    ],
)
def test_set_keeps_what_a_short_form_stands_for(short: str, word: str, mapping: str) -> None:
    key = short.partition(":")[0]
    by_set = load(f"{short}\n", sets=(word,)).value
    assert by_set == load(f"{key}: {mapping}\n").value
    variant = load(f"{short}\nvariants: {{v: {{{_nest(word)}}}}}\n", sets=("variant=v",)).value
    assert getattr(variant, key) == getattr(by_set, key)


def _nest(word: str) -> str:
    """``a.b=c`` as a mapping in YAML, without its outermost braces."""
    path, _, value = word.partition("=")
    *above, last = path.split(".")
    return "".join(f"{step}: {{" for step in above) + f"{last}: {value}" + "}" * len(above)


def test_set_beside_a_value_that_is_wrong_names_it() -> None:
    assert problem("train: {wrap: [A]}\n", sets=("train.wrap.min_params=9",)).code == "J236"
    assert problem("track: comet\n", sets=("track.wandb.project=p",)).code == "J102"
    assert problem("train: {lora: x}\n", sets=("train.lora.bits=4",)).code == "J121"


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("LRR=1", "J162"),
        ("LR", "J162"),
        ("=1", "J162"),
        ("time=4:00", "J131"),
        ("nodes=0", "J122"),
        ("launcher.typ=srun", "J102"),
        ("setup.7=x", "J162"),
        ("min_nodes=2", "J162"),
        ("env.HF_TOKEN=abcdefgh", "J150"),
    ],
)
def test_a_set_that_does_not_fit_is_a_problem_of_its_own(word: str, code: str) -> None:
    found = problem("vars: {LR: 1}\nsetup: [a]\n", run="train.py ${LR}", sets=(word,))
    assert found.code == code
    assert found.place
    assert found.place.file.startswith("--set")
    assert "abcdefgh" not in found.message + found.hint


def test_a_word_that_is_a_variable_and_a_key_is_neither() -> None:
    assert problem("vars: {nodes: 1}\n", nodes="${nodes}", sets=("nodes=2",)).code == "J162"


def test_an_undeclared_variable_is_named_where_it_stands() -> None:
    found = problem("vars: {LR: 1}\nlabels: {a: 'x${LRR}'}\nenv: {LR: '${LR}'}")
    assert found.code == "J160"
    assert found.hint.startswith("did you mean 'LR'?")
    assert found.place
    assert (found.place.line, found.place.col, found.place.end_col) == (7, 15, 21)


def test_the_line_of_a_block_is_named() -> None:
    found = problem("vars: {LR: 1}\nenv: {LR: '${LR}'}\nsetup: |\n  a\n  b ${LRR}\n")
    assert found.place
    assert found.place.line == 10


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ("train.py ${HOME} ${SLURM_JOB_ID} ${X:-1} $(date) ${Y}", None),
        ("|\n  Z=1\n  train.py ${Z}", "Z=1\ntrain.py ${Z}"),
        ("|\n  for f in a; do wc ${f}; done; train.py", "for f in a; do wc ${f}; done; train.py"),
        ("train.py $LRR $$ ${LR}", "train.py $LRR $$ 1"),
    ],
)
def test_what_is_the_shells_stays(run: str, text: str | None) -> None:
    assert load("vars: {LR: 1}\nenv: {Y: '${LR}'}\n", run=run).value.run == (text or run)


def test_a_variable_in_braces_must_be_quoted_and_the_hint_says_so() -> None:
    found = problem("vars: {LR: 1}\nlabels: {a: ${LR}}\n")
    assert found.code == "J105"
    assert "'${NAME}'" in found.hint


def test_a_doubled_dollar_keeps_jobgen_away() -> None:
    job = load("vars: {LR: 1}\nenv: {A: '$${LR}$$', B: '${LR}'}\n", run="train.py $${LR} $$").value
    assert job.run == "train.py ${LR} $$"
    assert job.env["A"] == "$${LR}$$"


def test_only_shell_text_may_use_the_shells_syntax() -> None:
    assert problem("env: {A: '${B:-c}'}").code == "J161"
    assert problem("checkpoint: {dir: '/x/$(id)'}").code == "J161"
    assert warned("env: {A: $(date)}") == ["J161"]
    assert load("env: {A: $(date)}").value.env["A"] == "$(date)"


def test_the_value_of_a_variable_is_literal() -> None:
    assert [p.code for p in problems("vars: {A: 1, B: 'x${A}'}\n", run="train.py ${A} ${B}")] == [
        "J161"
    ]


def test_an_unused_variable_is_pointed_out() -> None:
    assert warned("vars: {LR: 1}\n") == ["J163"]


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("LR=3e-5", "declare it in the job file first: vars: {LR: 3e-5}"),
        ("X=a b", "declare it in the job file first: vars: {X: VALUE}"),
        ("gpus=4", "use --set gpus_per_node=4, per node: divide a total by nodes"),
        ("partition=gpu", "use --set slurm.partition=gpu"),
        ("constraint=a100&ib", "use --set 'slurm.constraint=a100&ib'"),
        ("zero_stage=3", "use --set train.strategy=zero3"),
        ("walltime=2h", "use --set time=2h"),
        ("nods=4", "did you mean 'nodes'?"),
        ("args=--lr 1", "write run: train.py --lr 1"),
    ],
)
def test_set_of_an_unknown_name_is_told_what_to_type(word: str, hint: str) -> None:
    assert problem(sets=(word,)).hint == hint


def test_set_of_a_name_near_a_variable_names_it() -> None:
    assert problem("vars: {LR: 1}\n", run="a ${LR}", sets=("LRR=1",)).hint == "did you mean 'LR'?"


def test_the_place_of_a_value_that_set_gave_is_the_option() -> None:
    loaded = load(sets=("nodes=4",))
    assert str(loaded.find_place("nodes")) == "--set nodes"
    assert str(loaded.find_place("time")).startswith("job.yaml:")


@pytest.mark.parametrize("empty", ["DATA=", "DATA= "])
def test_an_empty_value_does_not_set_a_required_variable(
    empty: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = "name: x\ncluster: a100x16\nnodes: 1\ntime: 1h\nrun: train.py ${DATA}\n"
    text += "vars: {DATA: {required: path of the records}}\n"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "train.py").write_text("pass\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_command(["plan", "job.yaml", "--set", empty]) != 0
    assert "DATA is not set: path of the records" in capsys.readouterr().err
