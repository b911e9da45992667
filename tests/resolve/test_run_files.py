"""Files that arguments of run: name, and arguments that exclude each other."""

from __future__ import annotations

import pytest

from jobgen.model.decision import PlanCheck
from tests.resolve.made import job, plan

FILES = frozenset({"ds.py", "prepare.sh", "conf/ds.json", "sub/ds.py", "sub/near.json"})


def missing(run: str, files: frozenset[str] | None = FILES, **keys: str) -> list[PlanCheck]:
    text = job(run=f"|\n  {run}", **{"launcher": "torchrun", **keys})
    return [check for check in plan(text, workdir_files=files).checks if check.code == "J220"]


@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("ds.py --deepspeed_config conf/nothere.json", "conf/nothere.json"),
        ("ds.py --deepspeed-config=conf/nothere.json", "conf/nothere.json"),
        ("ds.py --deepspeed conf/x.json --bf16", "conf/x.json"),
        ("cd sub && python ds.py --deepspeed conf/ds.json", "sub/conf/ds.json"),
        ("ds.py --deepspeed ../conf/ds.json", "../conf/ds.json"),
        ("ds.py --deepspeed ./conf/ds.json", ""),
        ("cd sub && python ds.py --deepspeed ../conf/ds.json", ""),
        ("ds.py --deepspeed /shared/ds.json", ""),
        ("ds.py --deepspeed ~/ds.json", ""),
        ("ds.py --deepspeed $CONF/ds.json", ""),
        ('ds.py --deepspeed "$JOBGEN_BUNDLE_DIR/ds_config.json"', ""),
        ("ds.py --deepspeed --deepspeed_config conf/ds.json", ""),  # DeepSpeed's own is a flag
        ("ds.py --deepspeed", ""),
        ("ds.py --deepspeed zero2", ""),  # a name that the program knows
        ("""ds.py --deepspeed '{"a": "b.json"}'""", ""),
        ("if [ -f conf/x.json ]; then python ds.py --deepspeed conf/x.json; fi", ""),
        ("cd /elsewhere && python ds.py --deepspeed x.json", ""),
    ],
)
def test_a_configuration_that_is_not_in_the_workdir_is_reported(run: str, path: str) -> None:
    found = missing(run)
    assert [c.message for c in found] == ([f"{path} is not in the job's folder"] if path else [])
    assert all(check.status == "fail" and check.place for check in found)


def test_what_an_earlier_command_may_make_is_a_warning() -> None:
    run = "ds.py --deepspeed conf/x.json"
    assert [check.status for check in missing(run, setup="module load cuda")] == ["warn"]
    assert [check.status for check in missing(f"./prepare.sh\n  python {run}")] == ["warn"]
    assert missing(run, setup="cp /shared/x.json conf/x.json") == []
    assert missing(run, None) == []


def test_the_nearest_file_is_named() -> None:
    (check,) = missing("ds.py --deepspeed near.json")
    assert check.hint == "did you mean sub/near.json?"


@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("bash run.sh", "run.sh"),
        ("sh -x sub/run", "sub/run"),
        ("./run.sh --fast", "run.sh"),
        ("source env.sh && python ds.py", "env.sh"),
        ("cd sub && bash ../run.sh", "run.sh"),
        ("bash -lc 'python trian.py'", "trian.py"),
        ("bash prepare.sh", ""),
        ("bash /opt/run.sh", ""),
        ("bash $HOME/run.sh", ""),
        ("bash -c 'hostname'", ""),
        ("echo hostname | bash -s", ""),
        ("if [ -f run.sh ]; then bash run.sh; fi", ""),
        ("nvidia-smi", ""),
    ],
)
def test_a_script_that_is_not_in_the_workdir_is_reported(run: str, path: str) -> None:
    found = [check.message for check in missing(run, launcher="srun")]
    assert found == ([f"{path} is not in the job's folder"] if path else [])


# ---- FSDP beside DeepSpeed


def clashing(run: str, train: str = "", **facts: object) -> list[tuple[str, str]]:
    made = plan(job(run=run, train=train, gpus_per_node="8"), **facts)
    return [(c.status, c.message) for c in made.checks if c.code == "J255"]


HF = "{framework: hf-trainer, strategy: %s, micro_batch: 1}"
BOTH = "the Trainer rejects --fsdp together with --deepspeed"


@pytest.mark.parametrize(
    ("run", "train", "status", "said"),
    [
        ("a.py --fsdp full_shard --deepspeed ds.json", "", "warn", "run: has both"),
        ("a.py --fsdp true --deepspeed=ds.json", HF % "ddp", "fail", "run: has both"),
        ("a.py --deepspeed ds.json", HF % "fsdp", "fail", "train: passes --fsdp"),
        ("a.py --deepspeed ds.json", HF % "fsdp2", "fail", "train: passes --fsdp"),
        ("a.py --fsdp full_shard", HF % "zero2", "fail", "train: passes --deepspeed"),
        ("a.py --fsdp full_shard", "", "", ""),
        ("a.py --fsdp '' --deepspeed ds.json", "", "", ""),
        ("a.py --fsdp=false --deepspeed ds.json", "", "", ""),
        ("a.py --deepspeed ds.json", HF % "zero2", "", ""),
    ],
)
def test_fsdp_beside_deepspeed_is_reported(run: str, train: str, status: str, said: str) -> None:
    found = clashing(run, train)
    assert [status for status, _ in found] == ([status] if status else [])
    assert all(said in message and BOTH in message for _, message in found)


def test_two_flags_of_a_program_without_transformers_are_its_own_affair() -> None:
    run = "a.py --fsdp full_shard --deepspeed ds.json"
    assert clashing(run, sources={"a.py": "import torch"}) == []
    assert [s for s, _ in clashing(run, sources={"a.py": "import transformers"})] == ["fail"]
