"""What ``explain`` knows: codes, keys, variables, and what is only hearsay."""

from __future__ import annotations

import csv
import shlex
from pathlib import Path

import pytest

import jobgen.data
from jobgen.app.explaining import explain
from jobgen.cli.output import Ink
from jobgen.cli.screens import explain as screens
from jobgen.data.causes import causes
from jobgen.data.env_variables import catalogue, own_variables
from jobgen.data.message_codes import codes
from jobgen.errors import Missing
from jobgen.load.hint_values import accepts
from jobgen.load.key_reference import list_keys
from jobgen.model.cluster import ClusterProfile
from jobgen.model.job import JobSpec
from jobgen.source import scan
from jobgen.strategy.spec import TRAITS

TABLES = Path(jobgen.data.__file__).parent
PLAIN = Ink(width=100)


def names(table: str, column: str) -> list[str]:
    """One column of a table."""
    with (TABLES / table).open(encoding="utf-8", newline="") as stream:
        return [row[column] for row in csv.DictReader(stream)]


WORDS = [word for each in names("plan_words.csv", "words") for word in each.split("|")]


@pytest.mark.parametrize("word", [*WORDS, "MFU", "NEEDS", "FULL_SHARD"])
def test_every_word_of_the_plan_is_explained(word: str) -> None:
    (row,) = explain(word).words
    text = screens.screen(explain(word), PLAIN)
    assert row.meaning[:20] in text
    assert {key for key in row.keys if key} <= {key.path for key in list_keys()}
    assert screens.data(explain(word))[0]["kind"] == "word"


@pytest.mark.parametrize("strategy", sorted(TRAITS))
def test_every_strategy_is_explained_by_itself(strategy: str) -> None:
    (row,) = explain(strategy).words
    assert row.keys
    assert strategy in row.title.lower().replace("-", "") or strategy in row.meaning


@pytest.mark.parametrize(
    "word",
    shlex.split(
        "NEEDS FITS 'EST. STEP' TOK/S/GPU EXPOSED EFF. logits gathered moments master buckets "
        "'allocator cache' 'CUDA context' allocated reserved pinned autocast assumed tokens/s "
        "eager LoRA QLoRA mesh 'fake tensors' calibrated fused full selective tight"
    ),
)
def test_columns_and_terms_of_the_plan_are_words(word: str) -> None:
    assert explain(word).words


def test_a_word_that_is_a_key_too_is_explained_as_both() -> None:
    text = " ".join(screens.screen(explain("fused"), PLAIN).split())
    assert text.startswith("fused, a word of the plan As a loss: the output layer and the loss")
    assert "train.fused, a key of job.yaml" in text


def test_verdicts_do_not_begin_with_the_error() -> None:
    for word in ("tight", "fits"):
        text = screens.screen(explain(word), PLAIN)
        assert text.startswith("fits, tight, a word of the plan\n")
        assert "J251" in text
    assert explain("does not fit").codes[0].code == "J251"


def test_all_words_of_the_plan_are_listed() -> None:
    rows = screens.screen(explain("words"), PLAIN).splitlines()
    assert len(rows) == len(names("plan_words.csv", "title"))
    assert any(row.startswith("MFU ") for row in rows)
    assert "jobgen explain words" in screens.screen(explain(None), PLAIN)


def test_what_differs_between_the_two_fsdp_is_explained() -> None:
    wide = Ink(width=1000)
    first, second = (
        " ".join(screens.screen(explain(word), wide).split()) for word in ("fsdp", "fsdp2")
    )
    assert "one flat parameter" in first
    assert "each parameter by itself" in second
    assert "train.strategy.type" in second


@pytest.mark.parametrize("name", names("nccl_env.csv", "name"))
def test_every_row_of_the_table_of_nccl_is_reachable(name: str) -> None:
    found = explain(name)
    assert found.variables or found.hearsay
    assert name in {row.name for row in found.variables} | {said.entry for said in found.hearsay}
    assert name in screens.screen(found, PLAIN)


@pytest.mark.parametrize("entry", names("nccl_folklore.csv", "wrong_name"))
def test_every_row_of_hearsay_is_reachable_by_each_of_its_names(entry: str) -> None:
    for word in entry.split(" / "):
        name, equals, values = word.partition(" ")[0].partition("=")
        for value in values.split("|"):
            found = explain(f"{name}{equals}{value}")
            assert entry in {said.entry for said in found.hearsay}
            said = next(s for s in found.hearsay if s.entry == entry)
            assert said.why in screens.screen(found, Ink(width=300))


def test_every_other_variable_is_reachable_and_has_a_source() -> None:
    for name in names("env_variables.csv", "name"):
        (row,) = explain(name).variables
        assert row.name == name
        assert row.source
        assert row.meaning
        assert row.owner
    assert not set(names("env_variables.csv", "name")) & set(names("nccl_env.csv", "name"))


def test_a_variable_of_others_is_not_said_to_come_from_pytorchs_process_group() -> None:
    """The table of NCCL also holds those of torchrun, CUDA and OpenMP."""
    read_by_group = {"TORCH", "NCCL", "GLOO"}
    for name, row in catalogue().items():
        if "ProcessGroupNCCL" in row.source:
            assert name.split("_")[0] in read_by_group, name
        assert row.since != "n/a"
    (row,) = explain("OMP_NUM_THREADS").variables
    assert row.source == "OpenMP specification; torch/distributed/run.py"


def test_a_variable_is_found_whatever_its_case() -> None:
    assert explain("nccl_ib_hca").variables[0].name == "NCCL_IB_HCA"
    assert explain("ompi_mca_COLL_hcoll_enable").variables[0].name == "OMPI_MCA_coll_hcoll_enable"


def test_a_value_is_judged() -> None:
    found = explain("NCCL_IB_HCA=mlx5_1")
    assert [f.code for f in found.findings] == ["J318"]
    assert "also matches mlx5_10" in screens.screen(found, PLAIN)
    assert explain("NCCL_IB_HCA==mlx5_1").findings == ()
    assert explain("NCCL_IB_HCA").findings == ()


def test_a_family_is_listed() -> None:
    found = explain("NCCL_IB_*")
    assert len(found.variables) >= 40
    assert {said.entry for said in found.hearsay} >= {"NCCL_IB_HCAS"}
    lines = screens.screen(found, PLAIN).splitlines()
    listed = {line.split()[0] for line in lines if not line.startswith(" ")}
    names = {row.name for row in found.variables} | {said.entry for said in found.hearsay}
    assert listed == names
    assert max(map(len, lines)) <= 100


def test_every_key_is_explained_and_its_example_is_accepted() -> None:
    for key in list_keys():
        found = explain(key.path)
        assert key in (*found.keys, *found.others)
        assert key.meaning
        if key.example:
            form = JobSpec if key.file == "job.yaml" else ClusterProfile
            [(name, value)] = scan(key.example, "example").data.items()
            assert accepts(form, name, value), key.example


def test_a_key_is_explained_with_its_values_and_an_example() -> None:
    text = screens.screen(explain("procs_per_node"), PLAIN)
    assert text.startswith("procs_per_node, a key of job.yaml\n")
    assert "Values:   a whole number from 1\n" in text
    assert "Example:  procs_per_node: 2\n" in text
    assert "See also: procs_per_node (cluster.yaml)" in text
    assert "Default:  none: the key is required" in screens.screen(explain("nodes"), PLAIN)


def test_a_key_is_found_by_its_path_or_its_name_and_by_a_pattern() -> None:
    assert explain("micro_batch").keys == explain("train.micro_batch").keys
    assert explain("train.lora.*").keys[0].path == "train.lora.rank"
    inside = screens.screen(explain("checkpoint"), PLAIN)
    assert "\ncheckpoint.max_requeues  Maximum number" in inside


def test_a_cause_is_found_by_the_name_that_diagnose_gives_it_unless_a_key_has_that_name() -> None:
    assert [code.code for code in explain("gpu_memory").codes] == ["J520"]
    others = {name for name in causes() if not explain(name).codes}
    assert {"setup", "launcher"} <= others
    assert len(others) < 10


@pytest.mark.parametrize(
    ("word", "code"),
    [("does not fit", "J251"), ("OOM", "J520")],
)
def test_a_word_of_a_screen_is_explained_by_its_code(word: str, code: str) -> None:
    assert [found.code for found in explain(word).codes] == [code]


def test_a_word_of_a_screen_belongs_to_one_code() -> None:
    words = [word for code in codes().values() for word in code.words]
    assert len(words) == len(set(words))
    assert all(word == word.lower() for word in words)


def test_a_value_of_several_keys_lists_them() -> None:
    found = explain("off")
    assert found.family
    assert {"preflight", "monitor"} <= {key.path for key in found.keys}


def test_settings_in_fixes_are_named_as_programs_call_them() -> None:
    found = explain("J520")
    names = dict(found.programs)
    assert names["torchtitan"] == "--training.local_batch_size 1, activation-checkpoint:full"
    text = screens.screen(found, PLAIN)
    assert "hf-trainer  --per_device_train_batch_size 1, --gradient_checkpointing=true" in text
    assert screens.data(found)[0]["programs"] == names
    assert not explain("J501").programs


def test_every_variable_of_jobgen_is_explained() -> None:
    for name, row in own_variables().items():
        found = explain(f"${name}")
        assert found.own == (row,) or found.variables[0].name == name
    text = screens.screen(explain("jobgen_checkpoint_dir"), PLAIN)
    assert text.startswith("JOBGEN_CHECKPOINT_DIR\n\nWhere checkpoints go: ")
    assert text.endswith("\n\nSet for the program.\n")
    assert "JOBGEN_STOP_FILE  " in screens.screen(explain("JOBGEN_*"), PLAIN)


def test_codes_are_still_explained() -> None:
    assert explain("j131").codes[0].code == "J131"
    everything = explain(None)
    assert len(everything.codes) == len(codes())
    assert everything.more >= len(catalogue())
    assert str(everything.more) in screens.screen(everything, PLAIN)


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("NCCL_IB_HKA", "NCCL_IB_HCA"),
        ("FI_PROVIDR", "FI_PRO"),
        ("train.micro_bach", "train.micro_batch"),
        ("proc_per_node", "procs_per_node"),
        ("ntasks_per_node", "in job.yaml, write gpus_per_node, or procs_per_node"),
        ("JOBGEN_CHECKPOINT", "JOBGEN_CHECKPOINT_DIR"),
    ],
)
def test_an_unknown_word_has_the_nearest_one(word: str, near: str) -> None:
    with pytest.raises(Missing) as raised:
        explain(word)
    assert near in raised.value.problems[0].hint


@pytest.mark.parametrize("word", ["*", "**", "NCCL_*", "PET_", "NCCL_DEBUG="])
def test_any_pattern_is_answered(word: str) -> None:
    assert screens.data(explain(word))


@pytest.mark.parametrize("word", ["", "=", "ZZ*", "[", "\x1b[31m", "a" * 5000, "PET"])
def test_any_word_is_refused_with_a_hint(word: str) -> None:
    with pytest.raises(Missing) as raised:
        explain(word)
    assert "all codes: jobgen explain 'J*'" in raised.value.problems[0].hint


def test_keys_of_steps_and_groups_are_explained_once() -> None:
    for word in ("groups.until", "groups.ready", "steps.nodes", "groups.ready.port"):
        assert explain(word).keys[0].path == word
    assert explain("ready").keys[0].path == "groups.ready"
    assert [key.path for key in explain("groups").below][:2] == ["groups.run", "groups.nodes"]
    paths = [key.path for key in list_keys()]
    assert not [path for path in paths if path.startswith(("steps.train.", "groups.launcher."))]


def test_variables_of_a_group_are_explained_by_its_name() -> None:
    for kind in ("HOST", "HOSTS", "PORT"):
        assert explain(f"$JOBGEN_{kind}_RAY_HEAD").own[0].name == f"JOBGEN_{kind}_NAME"
