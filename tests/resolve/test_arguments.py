"""Arguments of run: that contradict train:, or what the plan assumes."""

from __future__ import annotations

import json

import pytest

from jobgen.model.decision import PlanCheck
from tests.resolve.made import job, plan

LLAMA = "model: meta-llama/Llama-3.1-8B"


def differing(run: str, train: str, **facts: object) -> list[PlanCheck]:
    launcher = "torchrun" if "\n" in run else ""
    text = job(run=run, train=f"{{{train}}}", gpus_per_node="8", launcher=launcher)
    return [check for check in plan(text, **facts).checks if check.code == "J255"]


@pytest.mark.parametrize(
    ("train", "run", "message", "hint"),
    [
        (  # written, and passed behind it
            "framework: hf-trainer, micro_batch: 2",
            "train.py --per_device_train_batch_size 4",
            (
                "run: --per_device_train_batch_size 4, but train.micro_batch is 2; "
                "options from train: come last and win"
            ),
            "set micro_batch: 4 under train:",
        ),
        (
            "framework: hf-trainer, micro_batch: 2, global_batch: 64",
            "train.py --gradient_accumulation_steps 8",
            (
                "run: --gradient_accumulation_steps 8, but train.global_batch sets "
                "gradient_accumulation to 2; options from train: come last and win"
            ),
            "set --gradient_accumulation_steps 2 in run:",
        ),
        (
            f"framework: hf-trainer, {LLAMA}, activation_checkpointing: none",
            "train.py --gradient_checkpointing",
            "run: --gradient_checkpointing, but train.activation_checkpointing is none",
            "set activation_checkpointing: full under train:",
        ),
        (
            f"framework: hf-trainer, {LLAMA}",
            "train.py --bf16 False",
            (
                "run: --bf16 False, but train: leaves precision at its default, bf16; options "
                "from train: come last and win"
            ),
            "set precision: fp32 under train:",
        ),
        (
            f"framework: hf-trainer, {LLAMA}, strategy: fsdp2",
            "train.py --fsdp 'full_shard auto_wrap offload'",
            (
                "run: --fsdp full_shard auto_wrap offload, but train: leaves offload at its "
                "default, none; options from train: come last and win"
            ),
            "set offload: both under train:",
        ),
        (
            f"framework: hf-trainer, {LLAMA}, loss: fused",
            "train.py --use_liger_kernel False",
            "run: --use_liger_kernel False, but train.loss is fused",
            "set loss: plain under train:",
        ),
        (
            f"framework: hf-trainer, {LLAMA}, compiled: true",
            "train.py --torch_compile=false",
            "run: --torch_compile false, but train.compiled is true",
            "set compiled: false under train:",
        ),
        (
            f"framework: megatron, {LLAMA}, micro_batch: 1",
            "pretrain_gpt.py --optimizer sgd",
            "run: --optimizer sgd, but the plan assumes optimizer: adamw",
            "set optimizer: sgd under train:",
        ),
        (
            f"framework: megatron, {LLAMA}, strategy: 3d, tp: 4, micro_batch: 1",
            "pretrain_gpt.py --tensor-model-parallel-size 8",
            (
                "run: --tensor-model-parallel-size 8, but train.tp is 4; "
                "options from train: come last and win"
            ),
            "set tp: 8 under train:",
        ),
        (
            "framework: torchtitan, strategy: fsdp2, seq_len: 4096",
            "-m torchtitan.train --training.seq-len 8192",
            (
                "run: --training.seq-len 8192, but train.seq_len is 4096; "
                "options from train: come last and win"
            ),
            "set seq_len: 8192 under train:",
        ),
        (
            f"framework: lightning, {LLAMA}, strategy: fsdp2",
            "train.py fit --trainer.precision 16-mixed",
            (
                "run: --trainer.precision 16-mixed, but train: leaves precision at its "
                "default, bf16; options from train: come last and win"
            ),
            "set precision: fp16 under train:",
        ),
        (
            "framework: lightning, strategy: ddp",
            "train.py fit --trainer.strategy deepspeed_stage_3",
            (
                "run: --trainer.strategy deepspeed_stage_3, but train.strategy is ddp; "
                "options from train: come last and win"
            ),
            "set strategy: zero3 under train:",
        ),
        (
            f"framework: deepspeed, {LLAMA}, strategy: zero2, micro_batch: 1",
            "train.py --zero_stage 3",
            "run: --zero_stage 3, but train.strategy is zero2",
            "set strategy: zero3 under train:",
        ),
        (
            "strategy: fsdp2, seq_len: 2048",
            "MBS=4\n  train.py --seq_length 4096",
            "run: --seq_length 4096, but train.seq_len is 2048",
            "set seq_len: 4096 under train:",
        ),
    ],
)
def test_what_differs_is_named_with_the_line_to_write(
    train: str, run: str, message: str, hint: str
) -> None:
    found = differing(f"|\n  {run}\n" if "\n" in run else run, train)
    assert message in [check.message for check in found]
    assert hint in [check.hint for check in found]
    assert {check.status for check in found} == {"warn"}


@pytest.mark.parametrize(
    ("sets", "run", "hints"),
    [
        (  # the micro-batch of run: divides this batch, its accumulation does not
            ["train.global_batch=128"],
            "train.py --per_device_train_batch_size 4 --gradient_accumulation_steps 8",
            ["set --gradient_accumulation_steps 2 in run:"],
        ),
        (
            ["train.global_batch=48"],
            "train.py --per_device_train_batch_size 4",
            ["set --per_device_train_batch_size 3 in run:"],
        ),
        (
            ["train.micro_batch=2", "train.gradient_accumulation=16"],
            "train.py --per_device_train_batch_size=4 --gradient_accumulation_steps 8",
            [
                "set --per_device_train_batch_size 2 in run:",
                "set --gradient_accumulation_steps 16 in run:",
            ],
        ),
        (
            ["train.activation_checkpointing=none"],
            "train.py --gradient_checkpointing",
            ["set --gradient_checkpointing false in run:"],
        ),
        (  # no word of the option stands for it
            ["train.optimizer=muon"],
            "train.py --optim adafactor",
            ["remove --optim from run:"],
        ),
    ],
)
def test_of_a_value_that_set_gives_run_is_what_to_change(
    sets: list[str], run: str, hints: list[str]
) -> None:
    text = job(run=run, train=f"{{framework: hf-trainer, {LLAMA}}}", gpus_per_node="8")
    checks = plan(text, sets=sets).checks
    assert [check.hint for check in checks if check.code == "J255"] == hints


def test_what_auto_chooses_is_no_default() -> None:
    (check,) = differing(
        "pretrain_gpt.py --recompute-granularity selective --micro-batch-size 64",
        f"framework: megatron, {LLAMA}, strategy: auto",
    )
    assert "strategy: auto sets activation_checkpointing to " in check.message


@pytest.mark.parametrize(
    ("train", "run"),
    [
        ("framework: hf-trainer, micro_batch: 4", "train.py --per_device_train_batch_size 4"),
        ("framework: hf-trainer", "train.py --per_device_train_batch_size 4"),  # no estimate
        ("framework: hf-trainer, micro_batch: 4", "train.py --per_device_train_batch_size $B"),
        ("framework: hf-trainer, micro_batch: 4", "train.py --bf16 true --bf16"),
        ("framework: hf-trainer, micro_batch: 4", "train.py --fp16 false"),
        ("framework: hf-trainer, gradient_clipping: 1", "train.py --max_grad_norm 1.0"),
        ("framework: hf-trainer, strategy: fsdp2", "train.py --fsdp 'full_shard auto_wrap'"),
        (f"framework: none, {LLAMA}", "train.py --fp16 --optimizer sgd --max_length 9"),
        (f"framework: torchtitan, {LLAMA}, strategy: fsdp2", "-m torchtitan.train --config x"),
        (
            f"framework: none, {LLAMA}",
            "|\n  python prepare_data.py --seq_length 99\n  python train.py\n",
        ),
    ],
)
def test_what_agrees_or_is_not_known_is_not_said(train: str, run: str) -> None:
    assert differing(run, train) == []


@pytest.mark.parametrize(
    ("train", "run", "flags"),
    [
        ("framework: hf-trainer, micro_batch: 1", "train.py --fp16 true", ("--fp16 true", "bf16")),
        (
            "framework: megatron, micro_batch: 1, precision: fp16",
            "pretrain_gpt.py --bf16 --lr 1",
            ("--bf16", "fp16"),
        ),
    ],
)
def test_flags_that_exclude_each_other_are_an_error(
    train: str, run: str, flags: tuple[str, str]
) -> None:
    (found,) = differing(run, train)
    assert found.status == "fail"
    assert f"run: {flags[0]}, but train: passes --{flags[1]}" in found.message


def test_the_argument_itself_is_the_place() -> None:
    train = "framework: hf-trainer, micro_batch: 2"
    (found,) = differing("python train.py --lr 1 --per_device_train_batch_size 4", train)
    assert found.place
    line = "run: python train.py --lr 1 --per_device_train_batch_size 4"
    shown = line[found.place.col - 1 : found.place.end_col - 1]
    assert (found.place.line, shown) == (4, "--per_device_train_batch_size")
    block = "|\n  set -e\n  python train.py \\\n    --per_device_train_batch_size 4\n"
    (found,) = differing(block, f"framework: none, {LLAMA}, micro_batch: 2")
    assert found.place
    assert found.place.line == 7


def test_a_deepspeed_configuration_that_run_names_is_compared() -> None:
    text = json.dumps(
        {
            "train_micro_batch_size_per_gpu": 4,
            "gradient_accumulation_steps": "auto",
            "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
            "fp16": {"enabled": False},
        },
        indent=1,
    )
    train = f"framework: deepspeed, {LLAMA}, strategy: zero2, micro_batch: 1"
    found = differing(
        "train.py --deepspeed --deepspeed_config ./conf/ds.json",
        train,
        sources={"conf/ds.json": text},
    )
    assert [(c.message, c.hint) for c in found] == [
        (
            "run: ./conf/ds.json:2: train_micro_batch_size_per_gpu 4, but train.micro_batch is 1",
            "set micro_batch: 4 under train:",
        ),
        (
            "run: ./conf/ds.json:5: zero_optimization.stage 3, but train.strategy is zero2",
            "set strategy: zero3 under train:",
        ),
        (
            (
                "run: ./conf/ds.json:7: zero_optimization.offload_optimizer.device cpu, "
                "but train: leaves offload at its default, none"
            ),
            "set offload: optimizer under train:",
        ),
    ]


# ---- a strategy that only stands in a file

OWN = {"train.py": "", "conf/ds_config.json": "{}", "conf/ds_auto.json": "{}"}


@pytest.mark.parametrize(
    ("train", "run", "sources", "said"),
    [
        ("strategy: fsdp2", "train.py", {"train.py": "import torch"}, True),
        ("strategy: fsdp2, framework: torch", "-m pkg.train", {"pkg/train.py": ""}, True),
        ("strategy: zero2, micro_batch: 1", "train.py", {"train.py": ""}, True),
        ("strategy: fsdp2", "train.py", {"train.py": "os.environ['JOBGEN_STRATEGY']"}, False),
        ("strategy: fsdp2", "train.py", {"train.py": "open('bundle/strategy.json')"}, False),
        (
            "strategy: fsdp2",
            "train.py",
            {"train.py": "import x", "x.py": "JOBGEN_STRATEGY"},
            False,
        ),
        ("strategy: fsdp2", "train.py --plan $JOBGEN_STRATEGY", {"train.py": ""}, False),
        ("strategy: fsdp2", "python /shared/train.py", {}, False),
        ("strategy: fsdp2", "-m installed.train", {}, False),
        ("strategy: fsdp2", "train.py", None, False),
        (LLAMA, "train.py", {"train.py": ""}, False),  # only planned: ddp is nobody's wish
        ("strategy: fsdp2, framework: none", "train.py", {"train.py": ""}, False),
        ("strategy: fsdp2, framework: accelerate", "train.py", {"train.py": ""}, False),
        # the user's own file of that name is another file
        ("strategy: zero2, micro_batch: 1", "train.py --d conf/ds_config.json", OWN, True),
        ("strategy: zero2, micro_batch: 1", "train.py --d=./conf/ds_config.json", OWN, True),
        (
            "strategy: zero2, micro_batch: 1",
            "train.py --d $JOBGEN_WORK_DIR/conf/ds_config.json",
            OWN,
            True,
        ),
        (
            "strategy: zero2, micro_batch: 1",
            "train.py --d $JOBGEN_BUNDLE_DIR/ds_config.json",
            OWN,
            False,
        ),
        ("strategy: zero2, micro_batch: 1", "train.py --d $CONF/ds_config.json", OWN, False),
        ("strategy: zero2, micro_batch: 1", "train.py --d my_ds_config.json", OWN, True),
        (
            "strategy: zero2, micro_batch: 1",
            "train.py",
            {**OWN, "train.py": "join('conf', 'ds_config.json')"},
            True,
        ),
        (
            "strategy: zero2, micro_batch: 1",
            "train.py",
            {**OWN, "train.py": "join(os.environ['JOBGEN_BUNDLE_DIR'], 'ds_config.json')"},
            False,
        ),
        ("strategy: zero2, micro_batch: 1", "train.py --d conf/ds_auto.json", OWN, True),
    ],
)
def test_a_program_that_does_not_read_its_strategy_is_named(
    train: str, run: str, sources: dict[str, str] | None, said: bool
) -> None:
    text = job(run=run, train=f"{{{train}}}", gpus_per_node="8")
    found = [check for check in plan(text, sources=sources).checks if check.code == "J256"]
    assert [check.status for check in found] == (["warn"] if said else [])
    assert all(check.place and check.place.line == 5 for check in found)


# ---- a strategy that only stands in arguments

BY_HAND = "args = TrainingArguments('out')\nTrainer(args=args).train()"
LIGHTNING = "import lightning as L\nL.Trainer(devices=4, num_nodes=1).fit(model)"


@pytest.mark.parametrize(
    ("framework", "sources", "said"),
    [
        ("hf-trainer", {"train.py": BY_HAND}, True),
        ("hf-trainer", {"train.py": f"import argparse\n{BY_HAND}"}, True),
        ("hf-trainer", {"train.py": "HfArgumentParser(TrainingArguments)"}, False),
        ("hf-trainer", {"train.py": "from trl import TrlParser"}, False),
        ("hf-trainer", {"train.py": "import x", "x.py": "HfArgumentParser"}, False),
        ("hf-trainer", {"train.py": "p.add_argument('--bf16')"}, False),
        ("hf-trainer", {"train.py": "main(sys.argv[1:])"}, False),
        ("hf-trainer", {"train.py": "import fire\nfire.Fire(main)"}, False),
        ("hf-trainer", {}, False),
        ("hf-trainer", None, False),
        ("lightning", {"train.py": LIGHTNING}, True),
        ("lightning", {"train.py": "from lightning.pytorch.cli import LightningCLI"}, False),
        ("lightning", {"train.py": "from jsonargparse import CLI"}, False),
        ("torchtitan", {"train.py": ""}, False),
        ("none", {"train.py": LIGHTNING}, False),
    ],
)
def test_a_program_that_does_not_read_the_arguments_is_named(
    framework: str, sources: dict[str, str] | None, said: bool
) -> None:
    text = job(train=f"{{framework: {framework}}}", gpus_per_node="8")
    found = [check for check in plan(text, sources=sources).checks if check.code == "J256"]
    assert [check.status for check in found] == (["warn"] if said else [])
    assert all(check.place and check.place.line == 5 for check in found)


@pytest.mark.parametrize(
    ("framework", "source", "message", "hint"),
    [
        (
            "lightning",
            LIGHTNING,
            (
                "train: passes --trainer.accelerator=gpu, --trainer.devices=8 and 7 more to "
                "train.py, which has no LightningCLI: it ignores them or fails"
            ),
            (
                "build the Trainer with LightningCLI; or set framework: none and use "
                "$LOCAL_WORLD_SIZE and $SLURM_NNODES in the program"
            ),
        ),
        (
            "hf-trainer",
            BY_HAND,
            (
                "train: passes --bf16=true to train.py, which has no HfArgumentParser: "
                "it ignores them or fails"
            ),
            "parse them with HfArgumentParser or TrlParser; or set framework: none to plan only",
        ),
    ],
)
def test_the_arguments_that_nothing_reads_are_shown(
    framework: str, source: str, message: str, hint: str
) -> None:
    made = plan(job(train=f"{{framework: {framework}}}"), sources={"train.py": source})
    (check,) = [check for check in made.checks if check.code == "J256"]
    assert (check.message, check.hint) == (message, hint)
