"""``lint -c``, ``plan`` and ``submit`` run the same checks, all at once, and end alike."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from jobgen.errors import Exit
from tests.cli.conftest import Jobgen, Said

PROFILE = """\
name: small
scheduler: slurm
ssh: host
paths: {root: /scratch/jobgen}
nodes: {count: 4, gpus_per_node: 8, gpu: A100-SXM4-80GB, cpus: 128, mem: 1TiB}
network: {fabric: infiniband}
limits: {time: 2d}
"""
VERBS = (["lint"], ["plan"], ["submit", "--dry-run"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRESENT", "a value")
    (tmp_path / "clusters").mkdir()
    (tmp_path / "clusters" / "small.yaml").write_text(PROFILE)
    (tmp_path / "train.py").write_text("print('hi')\n")
    return tmp_path


def write(folder: Path, *lines: str, run: str = "train.py") -> None:
    text = f"name: demo\nrun: {run}\n" + "".join(f"{line}\n" for line in lines)
    text += "setup: . env/bin/activate\n"  # brings the launcher
    (folder / "job.yaml").write_text(text)


def ends(jobgen: Jobgen) -> dict[str, Said]:
    return {words[0]: jobgen(*words, "job.yaml", "-c", "small") for words in VERBS}


ALL_WRONG = (
    "nodes: 64",
    "gpus_per_node: 8",
    "time: 9d",
    "cpus_per_task: 99",
    "mem: 9TiB",
    "secrets: [ABSENT]",
    "launcher: {type: srun, rdzv: static}",
    "after: [nothing-such]",
    "train: {model: meta-llama/Llama-3.1-8B, strategy: 3d, tp: 7}",
)
ITS_CODES = {"J201", "J205", "J206", "J207", "J138", "J209", "J220", "J221", "J233"}


@pytest.mark.parametrize("words", VERBS)
def test_one_round_shows_all_problems(jobgen: Jobgen, folder: Path, words: list[str]) -> None:
    write(folder, *ALL_WRONG, run="trian.py")
    answer = jobgen(*words, "job.yaml", "-c", "small", "--json")
    assert answer.code == Exit.INVALID
    data = json.loads(answer.out)
    problems = data["data"]["diagnostics"] if words == ["lint"] else data["error"]["problems"]
    assert {p["code"] for p in problems if p["severity"] == "error"} == ITS_CODES
    assert len(problems) == len({(p["code"], p["line"], p["message"]) for p in problems})


@pytest.mark.parametrize("words", VERBS)
def test_a_misspelt_key_hides_no_check_that_does_not_depend_on_it(
    jobgen: Jobgen, folder: Path, words: list[str]
) -> None:
    lines = ("nodes: 64", "time: 4:00", "gpu_per_node: 8", "launcher: torchrum")
    write(folder, *lines, "cpus_per_task: 99", "secrets: [ABSENT]", run="trian.py")
    answer = jobgen(*words, "job.yaml", "-c", "small", "--json")
    assert answer.code == Exit.INVALID
    codes = {code for code, _ in errors(answer)}
    assert codes == {"J102", "J123", "J131", "J201", "J220", "J221"}


def test_a_failed_check_stands_at_its_line(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", run="trian.py")
    answer = jobgen("lint", "job.yaml", "-c", "small")
    assert "job.yaml:2:6: error[J220]: trian.py is not in the job's folder" in answer.out
    assert "did you mean train.py?" in answer.out
    assert "Found 1 error in 1 file." in answer.out


@pytest.mark.parametrize(
    ("lines", "run", "code", "message"),
    [
        (("nodes: 1",), "trian.py", Exit.INVALID, "J220"),
        (("nodes: 5",), "train.py", Exit.INVALID, "J201"),
        (("nodes: 1",), "torchrun train.py", Exit.INVALID, "J306"),
        (("nodes: 1", "secrets: [ABSENT]"), "train.py", Exit.FAILED, "J221"),
        (("nodes: 1", "secrets: [PRESENT]"), "train.py", Exit.DONE, ""),
        (("nodes: 1", "secrets: [PRESENT]"), "set -x; train.py", Exit.INVALID, "J305"),
        (("nodes: 1", "after: [none]"), "train.py", Exit.INVALID, "J209"),
        (("nodes: 1", "workdir: elsewhere"), "train.py", Exit.INVALID, "J180"),
        (
            ("nodes: 1", "env: {NCCL_NET: IB, NCCL_IB_DISABLE: 1}"),
            "train.py",
            Exit.INVALID,
            "J317",
        ),
        (
            ("nodes: 1", "train: {model: meta-llama/Llama-3.1-70B, strategy: ddp}"),
            "train.py",
            Exit.UNFIT,
            "J251",
        ),
        (
            (
                "nodes: 1",
                "secrets: [ABSENT]",
                "train: {model: meta-llama/Llama-3.1-70B, strategy: ddp}",
            ),
            "train.py",
            Exit.FAILED,
            "J221",
        ),
        (("nodes: 1",), "train.py", Exit.DONE, ""),
    ],
)
def test_the_exit_code_is_the_same_from_every_verb(
    jobgen: Jobgen, folder: Path, lines: tuple[str, ...], run: str, code: Exit, message: str
) -> None:
    write(folder, "time: 1h", *lines, run=run)
    answers = ends(jobgen)
    assert {verb: Exit(answer.code) for verb, answer in answers.items()} == dict.fromkeys(
        answers, code
    )
    assert message in answers["lint"].out
    assert message in answers["submit"].err


def test_memory_that_does_not_suffice_stands_at_its_line(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", "train: {model: meta-llama/Llama-3.1-70B, strategy: ddp}")
    said = jobgen("lint", "job.yaml", "-c", "small").out
    assert "job.yaml:5:42: error[J251]: does not fit: needs about " in said
    assert "Found 1 error and 1 warning in 1 file." in said


def test_a_note_stands_at_the_key_that_causes_it(jobgen: Jobgen, folder: Path) -> None:
    train = "train: {framework: hf-trainer, strategy: fsdp, micro_batch: 1}"
    write(folder, "nodes: 1", "time: 1h", train)
    (folder / "train.py").write_text("HfArgumentParser(TrainingArguments)\n")
    said = jobgen("lint", "job.yaml", "-c", "small").out
    assert "job.yaml:5:32: note[J239]: FSDP1 is deprecated in transformers 5" in said
    assert "Found 1 note in 1 file." in said


def test_a_problem_on_no_line_counts_for_its_file(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", "secrets: [ABSENT]")
    said = jobgen("lint", "job.yaml", "-c", "small").out
    assert "job.yaml: error[J221]: ABSENT is not set in the environment" in said
    assert "Found 1 error in 1 file." in said


def test_an_unknown_cluster_is_seven_from_every_verb(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h")
    for words in VERBS:
        assert jobgen(*words, "job.yaml", "-c", "nowhere").code == Exit.MISSING


def test_a_plan_with_a_failed_check_ends_with_what_to_fix(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", "secrets: [ABSENT]", run="trian.py")
    answer = jobgen("plan", "job.yaml", "-c", "small")
    assert answer.code == Exit.INVALID
    text = " ".join(answer.out.split())
    assert "[fail] trian.py is not in the job's folder (job.yaml:2, J220)" in text
    assert "did you mean train.py?" in text
    assert text.count("ABSENT is not set in the environment") == 1
    assert answer.out.endswith("\nNext: edit job.yaml:2, then: jobgen plan job.yaml -c small\n")
    assert jobgen("plan", "job.yaml", "-c", "small", "--force").code == Exit.DONE


def test_a_plan_in_json_says_what_to_fix(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", run="trian.py")
    data = json.loads(jobgen("plan", "job.yaml", "-c", "small", "--json").out)["data"]
    (failed,) = [check for check in data["checks"] if check["status"] == "fail"]
    assert (failed["code"], failed["file"], failed["line"]) == ("J220", "job.yaml", 2)


def test_a_dry_run_forced_past_a_missing_program_goes_on(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h", run="trian.py")
    assert jobgen("submit", "job.yaml", "-c", "small", "-n", "--force").code == Exit.DONE


# ---- 1,000 generated jobs

CHOICES = {
    "run": (
        *["train.py"] * 40,
        "trian.py",
        "python -m pkg.train",
        "torchrun train.py",
        "set -x; train.py",
        "./run.sh",
        "'train.py --note \"open'",
        "train.py $1",
        "python train.py --per_device_train_batch_size 4 --bf16 true",
        "train.py && eval.py",
    ),
    "nodes": (*"1112224" * 4, "5", "1:2", "0", "many"),
    "gpus_per_node": (*[""] * 8, "0", "1", "4", "8", "8", "16"),
    "procs_per_node": (*[""] * 9, "2"),
    "cpus_per_task": (*[""] * 6, "4", "99", "4000"),
    "mem": (*[""] * 6, "0", "64GiB", "9TiB"),
    "time": (*["1h"] * 25, "2d", "9d", "4:00"),
    "launcher": (
        *[""] * 6,
        "torchrun",
        "srun",
        "plain",
        "accelerate",
        "{type: srun, rdzv: static}",
        "{type: deepspeed, config: ds.json}",
        "{type: deepspeed, config: none.json}",
    ),
    "secrets": (*[""] * 4, "[PRESENT]", "[ABSENT]", "{FILE: {file: none.txt}}"),
    "after": (*[""] * 12, "[never]"),
    "workdir": (*[""] * 30, "elsewhere", "{path: ., max_size: 1}"),
    "checkpoint": (*[""] * 8, "{requeue: true}", "{grace: 3h}"),
    "env": (
        *[""] * 8,
        "{NCCL_SOCKET_IFNAME: lo}",
        "{NCCL_NET: IB, NCCL_IB_DISABLE: 1}",
        "{NCCL_IB_HKA: mlx5_0}",
    ),
    "container": (*[""] * 8, "image.sif", "{image: x.sqsh, runtime: pyxis}"),
    "slurm": (*[""] * 8, "{exclusive: true}", "{nodes: 2}"),
    "array": (*[""] * 9, "0-3", "3-0"),
    "preflight": (*[""] * 6, "full", "off"),
    "train": (
        *[""] * 4,
        *(
            f"{{model: {model}, strategy: {strategy}{more}}}"
            for model in ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B", "nobody/nothing")
            for strategy in ("auto", "ddp", "fsdp2", "zero3", "3d")
            for more in ("", ", micro_batch: 2", ", tp: 3", ", framework: hf-trainer", ", pp: 2")
        ),
        "{config: ds.json, strategy: zero2, micro_batch: 1}",
        "{config: none.json, strategy: zero2}",
        "{strategy: zeor}",
    ),
    "nonsense": (*[""] * 60, "1"),
}
SOME, ALL = range(100), range(100, 1000)


def generate(number: int) -> str:
    draw = random.Random(number)  # noqa: S311 - inputs of a test
    chosen = {key: draw.choice(choices) for key, choices in CHOICES.items()}
    return "name: demo\n" + "".join(f"{key}: {text}\n" for key, text in chosen.items() if text)


@pytest.mark.parametrize("numbers", [SOME, pytest.param(ALL, marks=pytest.mark.exhaustive)])
def test_generated_jobs_end_alike_and_show_the_same_errors(
    jobgen: Jobgen, folder: Path, numbers: range
) -> None:
    (folder / "eval.py").touch()
    (folder / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1}')
    seen = set[int]()
    for number in numbers:
        (folder / "job.yaml").write_text(generate(number))
        answers = {words[0]: jobgen(*words, "job.yaml", "-c", "small", "--json") for words in VERBS}
        codes = {verb: answer.code for verb, answer in answers.items()}
        assert len(set(codes.values())) == 1, (number, codes)
        seen.add(codes["lint"])
        assert errors(answers["lint"]) == errors(answers["submit"]), number
        assert errors(answers["lint"]) == errors(answers["plan"]), number
    assert seen == {Exit.DONE, Exit.FAILED, Exit.INVALID, Exit.UNFIT}


def errors(answer: Said) -> set[tuple[str, str]]:
    """(code, message) of all errors in an answer in JSON, of whichever verb."""
    told = json.loads(answer.out)
    if told["error"]:
        problems = told["error"]["problems"]
    else:
        data = told["data"]
        problems = data.get("diagnostics") or [
            {**check, "severity": "error"}
            for check in data.get("checks", ())
            if check["status"] == "fail"
        ]
    return {(p["code"], p["message"]) for p in problems if p["severity"] == "error"}


def test_lint_checks_a_job_on_the_cluster_that_it_names(jobgen: Jobgen, folder: Path) -> None:
    write(folder, *ALL_WRONG, run="trian.py")
    named = jobgen("lint", "job.yaml", "-c", "small", "--json").out
    write(folder, *ALL_WRONG, "cluster: small", run="trian.py")
    # a secret that is not set is a warning where no cluster was named on the command line
    said = jobgen("lint", "job.yaml", "--json").out.replace('"warning"', '"error"')
    assert json.loads(said)["data"] == json.loads(named.replace('"warning"', '"error"'))["data"]
    write(folder, "nodes: 1", "time: 1h", "cluster: small")
    assert jobgen("lint").out == "1 file checked: no problems\n"
    write(folder, "nodes: 64", "time: 1h")
    assert jobgen("lint").out.endswith("; add -c NAME for all checks of submit.\n")


def test_a_job_without_a_cluster_gets_no_long_list(jobgen: Jobgen, folder: Path) -> None:
    write(folder, "nodes: 1", "time: 1h")
    said = " ".join(jobgen("submit", "job.yaml", "--dry-run").err.split())
    assert "no cluster selected" in said
    assert "yours: small; all: jobgen cluster ls --all" in said
    assert "a100x16" not in said
