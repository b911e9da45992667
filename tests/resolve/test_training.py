"""``train:`` in the plan: what is decided and why, what the program is given, what is refused."""

from __future__ import annotations

import json

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.model.plan import Plan
from jobgen.render import render
from jobgen.resolve import examine
from jobgen.strategy.spec import TRAITS
from tests.golden.cases import templates
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan

SHAPE = "{layers: 8, hidden: 64, heads: 8}"


def refused(text: str, cluster: str = GPUS, **facts: object) -> list[tuple[str, int, str]]:
    with pytest.raises(Invalid) as caught:
        plan(text, cluster, **facts)
    return [(p.code, p.place.line if p.place else 0, p.hint) for p in caught.value.problems]


def program(made: Plan) -> str:
    """The bash of every rank."""
    return render(made, templates())["program.sh"].content.decode()


def notes(made: Plan) -> list[str]:
    return [note.message for note in made.notes if note.code == "J239"]


def test_a_job_without_it_is_told_nothing() -> None:
    made = plan()
    assert "JOBGEN_STRATEGY" not in made.env
    assert not {"strategy", "mesh", "precision"} & set(made.other)


def test_every_decision_has_its_reason_and_its_line() -> None:
    train = "{strategy: fsdp, micro_batch: 2, global_batch: 64, activation_checkpointing: full}"
    made = plan(job(train=train))
    told = {key: (d.value, str(d.place)) for key, d in made.other.items()}
    assert told["strategy"] == ("FSDP FULL_SHARD", "job.yaml:5")
    assert told["mesh"] == ("data 16", "rule train")
    assert told["precision"] == ("bf16", "rule train")
    assert told["global_batch"] == ("64", "job.yaml:5")
    assert "micro 2 x accumulation 2 x 16 ranks" in made.other["global_batch"].why
    assert all(made.other[key].why for key in ("strategy", "framework", "mesh", "precision"))


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("ddp", "16 copies of the model"),
        ("fsdp", "1 copy of the model, each sharded over 16 ranks"),
        ("fsdp-hybrid", "2 copies of the model, each sharded over 8 ranks"),
        ("zero2", "16 copies of the model, with sharded states"),
        ("zero3", "1 copy of the model, each sharded over 16 ranks"),
    ],
)
def test_the_mesh_says_how_many_copies_there_are(strategy: str, why: str) -> None:
    made = plan(job(train=f"{{strategy: {strategy}, framework: none}}"))
    assert made.other["mesh"].why == why


def test_a_torch_program_gets_its_strategy_as_a_file() -> None:
    made = plan(job(train="{strategy: fsdp2, seq_len: 128}"))
    assert made.env["JOBGEN_STRATEGY"].value == "$JOBGEN_BUNDLE_DIR/strategy.json"
    assert str(made.env["JOBGEN_STRATEGY"].place) == "job.yaml:5"
    (text,) = (f.content for f in made.files if f.path == "strategy.json")
    said = json.loads(text)
    assert (said["strategy"], said["world_size"], said["seq_len"]) == ("fsdp2", 16, 128)


def test_arguments_stand_behind_the_programs_own() -> None:
    train = f"{{framework: megatron, strategy: 3d, tp: 2, micro_batch: 1, model: {SHAPE}}}"
    made = plan(job(run="pretrain_gpt.py --lr 1e-4", train=train))
    text = program(made)
    assert text.index("--lr 1e-4") < text.index("--tensor-model-parallel-size")
    assert '"$JOBGEN_CHECKPOINT_DIR"' in text
    assert made.env["CUDA_DEVICE_MAX_CONNECTIONS"].value == "1"
    assert made.configured["--sequence-parallel"].value == ""
    assert made.configured["--load"].value == "$JOBGEN_CHECKPOINT_DIR"


def test_an_option_that_run_has_too_is_told() -> None:
    run = "-m torchtitan.train --training.dtype bfloat16 --training.local_batch_size 2"
    train = "{framework: torchtitan, strategy: fsdp2, micro_batch: 2}"
    (twice,) = [note for note in notes(plan(job(run=run, train=train))) if "also sets" in note]
    assert twice.startswith("run: also sets --training.dtype bfloat16 (train: float32);")


def test_a_folder_for_checkpoints_in_run_is_the_programs() -> None:
    run = "pretrain_gpt.py --micro-batch-size 2 --save=/mine"
    made = plan(job(run=run, train="{framework: megatron, micro_batch: 2}"))
    assert not [note for note in notes(made) if "also sets" in note]
    assert program(made).count("--save ") == 0


HALF_BIASED = "{layers: 2, hidden: 64, heads: 4, bias: true, qkv_bias: false}"


@pytest.mark.parametrize("option", ["--model_name_or_path", "--model"])
def test_another_model_in_run_than_the_planned_one_is_noted(option: str) -> None:
    train = "{framework: hf-trainer, model: meta-llama/Llama-3.1-8B}"
    for name, other in (("Llama-3.1-70B", True), ("Llama-3.1-8B-Instruct", False), ("me/x", False)):
        made = plan(job(run=f"train.py {option} {name}", train=train))
        assert any(f"{option} {name}, but" in note for note in notes(made)) is other


@pytest.mark.parametrize(
    ("train", "line", "hint"),
    [
        ("{strategy: ddp, micro_batch: 3, global_batch: 100}", 5, "set global_batch: 96 or 144"),
        (f"{{strategy: 3d, tp: 3, model: {SHAPE}}}", 5, "set tp: 2 or 4"),
        ("{framework: torchtitan, precision: fp16}", 5, "set precision: bf16"),
        ("{framework: megatron}", 5, "set micro_batch: 1, and global_batch"),
        (
            f"{{framework: megatron, micro_batch: 1, model: {HALF_BIASED}}}",
            5,
            "set bias: true without qkv_bias, or bias: false",
        ),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(train: str, line: int, hint: str) -> None:
    assert [found[1:] for found in refused(job(train=train))] == [(line, hint)]


def test_what_only_the_cluster_shows_is_refused_too() -> None:
    ethernet = GPUS.replace("infiniband", "ethernet")
    text = job(train="{strategy: 3d, tp: 16, model: {layers: 8, hidden: 64, heads: 16}}")
    assert refused(text, ethernet)[0][0] == "J234"
    assert plan(text).other["mesh"].value == "data 1, tp 16"


def test_the_sizes_of_a_file_count() -> None:
    text = job(train="{strategy: 3d, tp: 2, model: model/config.json}")
    config = json.dumps({"num_attention_heads": 12, "num_key_value_heads": 3}).encode()
    assert refused(text, texts={"model/config.json": config})[0][0] == "J233"
    assert refused(text, texts={"model/config.json": b"{"})[0][0] == "J237"
    assert plan(text, texts={"model/config.json": b"{}"}).other["mesh"].value == "data 8, tp 2"


def test_words_behind_several_commands_would_be_lost() -> None:
    run = "|\n  cd sub\n  python train.py"
    text = job(train="{framework: torchtitan}", launcher="torchrun", run="x")
    text = text.replace("run: x", f"run: {run}")
    ((code, _, hint),) = refused(text)
    assert code == "J238"
    assert "setup:" in hint
    assert plan(text.replace("torchtitan", "torch"))


ELASTIC = {"nodes": "2:3", "launcher": "torchrun"}


def test_a_job_that_goes_on_with_fewer_nodes_must_come_out_even_on_each() -> None:
    made = plan(job(**ELASTIC, train="{micro_batch: 2, global_batch: 96}"))
    assert made.other["global_batch"].value == "96"
    assert any("strategy.json is for 24 ranks" in note for note in notes(made))
    ((code, line, hint),) = refused(job(**ELASTIC, train="{micro_batch: 2, global_batch: 48}"))
    assert (code, line) == ("J230", 2)
    assert "set nodes: 3" in hint


def test_a_framework_that_counts_the_ranks_goes_on_with_all_of_them_only() -> None:
    for framework in ("torchtitan", "lightning", "hf-trainer"):
        train = f"{{framework: {framework}, micro_batch: 1}}"
        assert refused(job(**ELASTIC, train=train))[0][:2] == ("J238", 2)
    assert plan(job(**ELASTIC, train="{framework: megatron, micro_batch: 1, global_batch: 48}"))


def test_ranks_without_gpus_are_counted_as_processes() -> None:
    text = job(procs_per_node="2", launcher="torchrun", train="{strategy: ddp, micro_batch: 2}")
    for cluster in (CPUS, LOCAL):
        assert plan(text, cluster).other["mesh"].value == "data 4"


@pytest.mark.parametrize(
    ("train", "run", "line"),
    [
        ("framework: hf-trainer\n  strategy: fsdp", "train.py", 7),
        ("framework: megatron\n  micro_batch: 1", "train.py --tokenizer-type N", 6),
        ("framework: megatron\n  micro_batch: 1\n  gradient_clipping: 1", "train.py", 4),
        ("framework: lightning\n  micro_batch: 2", "train.py --ckpt_path=last", 7),
        (
            "framework: deepspeed\n  strategy: zero2\n  micro_batch: 1\n  offload: optimizer",
            "a.py",
            9,
        ),
    ],
)
def test_a_note_has_the_line_of_the_key_that_causes_it(train: str, run: str, line: int) -> None:
    made = plan(job(run=run, train=f"\n  {train}"))
    (note,) = [note for note in made.notes if note.code == "J239"]
    assert note.place is not None
    assert note.place.line == line, note.message


@pytest.mark.parametrize("framework", ["torch", "megatron", "torchtitan", "lightning", "none"])
def test_every_strategy_of_a_framework_makes_a_whole_bundle(framework: str) -> None:
    for name, trait in TRAITS.items():
        if framework not in trait.frameworks or (framework, trait.family) == ("lightning", "zero"):
            continue
        train = f"{{framework: {framework}, strategy: {name}, micro_batch: 1}}"
        made = plan(job(train=train, launcher="torchrun"))
        assert render(made, templates()).files
        assert made.other["framework"].value == framework


def test_unknown_keys_of_a_deepspeed_configuration_are_told_without_train() -> None:
    text = job(launcher="{type: deepspeed, config: ds.json}")
    made = plan(text, texts={"ds.json": b'{\n "zero_optimisation": {"stage": 2}\n}'})
    (found,) = [note for note in made.notes if note.code == "J237"]
    assert found.severity == "warning"
    assert found.message.startswith("ds.json:2: unknown DeepSpeed key zero_optimisation")
    assert found.hint == "did you mean 'zero_optimization'?"
    made = plan(text, texts={"ds.json": b'{"zero_optimization": {"stage": "auto"}}'})
    assert [note for note in made.notes if note.code == "J237"] == []


READS = {"ds.py": "import deepspeed, os\nos.environ['JOBGEN_DEEPSPEED_CONFIG']"}


def configured(
    config: str, launcher: str, sources: dict[str, str] | None, run: str = "ds.py", train: str = ""
) -> list[tuple[str, str, int]]:
    """Problems of a launcher's configuration on 16 ranks: severity, message, line."""
    text = job(run=run, launcher=f"{{type: {launcher}, config: c/ds}}", train=train)
    texts = {"c/ds": config.encode()}
    if launcher == "accelerate":
        inner = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: c/in\n"
        texts = {"c/ds": inner.encode(), "c/in": config.encode()}
    facts = Facts(texts=texts, sources=sources)
    found = examine(load_job(text, "job.yaml"), load_cluster(GPUS, "c.yaml"), facts)
    return [
        (p.severity, p.message, p.place.line if p.place else 0)
        for p in found.problems
        if p.code in {"J230", "J232", "J235", "J237"}
    ]


@pytest.mark.parametrize(
    ("config", "launcher", "sources", "severity", "message"),
    [
        ('{"train_batch_size": 8}', "deepspeed", READS, "error", "8 is not a multiple of 16"),
        (
            '{"train_batch_size": 8}',
            "deepspeed",
            None,
            "warning",
            "8 is not a multiple of 16",
        ),
        ('{"train_batch_size": 8}', "deepspeed", {"ds.py": ""}, "warning", "not a multiple of 16"),
        (  # fewer ranks are data parallel than there are
            '{"train_batch_size": 8}',
            "deepspeed",
            {"ds.py": "JOBGEN_DEEPSPEED_CONFIG; initialize(mpu=mpu)"},
            "warning",
            "not a multiple of 16 ranks",
        ),
        ('{"train_batch_size": 32}', "deepspeed", READS, "", ""),
        ("{}", "deepspeed", READS, "error", "c/ds sets no batch"),
        ("{}", "deepspeed", None, "", ""),
        (
            '{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 1}',
            "deepspeed",
            READS,
            "error",
            'c/ds:1: train_batch_size is "auto"',
        ),
        (
            '{"train_batch_size": "auto"}',
            "deepspeed",
            {"ds.py": "import transformers; JOBGEN_DEEPSPEED_CONFIG"},
            "",
            "",
        ),
        (
            '{"train_batch_size": 16, "zero_optimisation": {}}',
            "deepspeed",
            READS,
            "error",
            "c/ds:1: unknown DeepSpeed key zero_optimisation",
        ),
        (
            '{"train_batch_size": 8}',
            "accelerate",
            {"ds.py": "import accelerate"},
            "error",
            "c/in:1: train_batch_size 8 is not a multiple of 16",
        ),
        ('{"train_batch_size": "auto"}', "accelerate", {"ds.py": "import accelerate"}, "", ""),
        ('{"zero": {}}', "accelerate", None, "warning", "c/in:1: unknown DeepSpeed key zero"),
    ],
)
def test_a_configuration_of_the_launcher_is_checked_as_that_of_train(
    config: str, launcher: str, sources: dict[str, str] | None, severity: str, message: str
) -> None:
    problems = configured(config, launcher, sources)
    assert [(kind, line) for kind, _, line in problems] == ([(severity, 5)] if severity else [])
    assert all(message in text for _, text, _ in problems)


def test_a_configuration_of_the_launcher_is_checked_beside_train() -> None:
    config = '{"train_batch_size": 8}'
    ((severity, message, _),) = configured(config, "deepspeed", READS, train="{framework: none}")
    assert (severity, "not a multiple of 16 ranks" in message) == ("error", True)
    assert (
        configured(config, "deepspeed", READS, train="{framework: none, tp: 2, strategy: 3d}") == []
    )


def test_a_configuration_of_deepspeed_is_named_once() -> None:
    text = job(
        launcher="{type: deepspeed, config: ds.json}", train="{strategy: zero2, micro_batch: 1}"
    )
    ((code, _, hint),) = refused(text, texts={"ds.json": b"{}"})
    assert (code, hint) == ("J238", "use train.config instead of launcher.config")


def test_the_users_own_deepspeed_configuration_is_checked_and_completed() -> None:
    text = job(train="{strategy: zero2, micro_batch: 1, config: ds.json}")
    made = plan(text, texts={"ds.json": b'{"steps_per_print": 10}'})
    held = json.loads(render(made, templates())["ds_config.json"].content)
    assert (held["steps_per_print"], held["train_batch_size"]) == (10, 16)
    ((code, line, hint),) = refused(text, texts={"ds.json": b'{"steps_per_prin": 10}'})
    assert (code, line, hint) == ("J237", 5, "did you mean 'steps_per_print'?")
