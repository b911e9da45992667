"""The screen of ``plan``: short for every job, the rest by name."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobgen.app import plan_extras
from jobgen.app.advising import Advised
from jobgen.app.prepare import prepare
from jobgen.app.world import World
from jobgen.cli.call import Flags
from jobgen.cli.estimating import estimate_job
from jobgen.cli.layout import measure
from jobgen.cli.output import Ink
from jobgen.cli.params import SECTIONS
from jobgen.cli.screens import plan_sections
from jobgen.cli.screens.plan_summary import HEIGHT, Invocation, Preview, draw
from jobgen.errors import Diagnostic, Exit
from jobgen.model.decision import PlanCheck
from tests.cli.conftest import ROOT, Jobgen, process
from tests.cli.test_terminal import Terminal
from tests.golden.cases import CASES, CATALOG, HERE
from tests.products import one_of_each

EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
PROFILES = [file.name for file in CATALOG.list_clusters()]
KEPT = [case for case in CASES if not case.endswith("-2n")]
"""Golden cases that are more than the same job on one more profile."""
LLAMA = """\
name: llama
nodes: 1
time: 4h
run: train.py
train: {model: meta-llama/Llama-3.1-70B, strategy: fsdp2}
"""


def check_screen(text: str) -> None:
    """A default screen: 25 lines, 80 columns, one blank line at a time, the next command last."""
    lines = text.splitlines()
    assert len(lines) <= HEIGHT, text
    assert not [line for line in lines[:-1] if measure(line) > 80 and "jobgen " not in line], text
    assert "\n\n\n" not in text
    following = r"Next: (edit \S+:\d+, then: )?jobgen (submit|plan|explain) .+"
    assert re.fullmatch(following, lines[-1]), text
    assert re.match(r"\S+ on \S+:( |$)", lines[0])
    assert sum(line.startswith("Details ") for line in lines) == 1


@pytest.fixture
def here(jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch) -> Jobgen:
    """The program, called in the repository."""
    monkeypatch.chdir(ROOT)
    return jobgen


def copy_with_few_layers(example: Path, folder: Path) -> None:
    """The screen's next command is run, too: it traces each layer of the model several times."""
    shutil.copytree(example, folder, ignore=shutil.ignore_patterns("__pycache__"))
    program = folder / "train.py"
    text = program.read_text()
    assert "WIDTH, LAYERS, HEADS" in text
    assert " = 1024, 24, 16," in text
    program.write_text(text.replace(" = 1024, 24, 16,", " = 1024, 2, 16,"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_example_has_a_short_screen(
    here: Jobgen, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.parent.name == "own-model":
        copy_with_few_layers(path.parent, tmp_path / path.parent.relative_to(ROOT))
        monkeypatch.chdir(tmp_path)
    named = re.search("^cluster:", path.read_text(), re.MULTILINE)
    answer = here("plan", str(path.relative_to(ROOT)), *([] if named else ["-c", "a100x16"]))
    assert answer.out, answer.err
    check_screen(answer.out)


@pytest.mark.parametrize("case", one_of_each(CASES, KEPT))
def test_every_golden_case_has_a_short_screen(jobgen: Jobgen, case: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    for file in (HERE / case).iterdir():
        if file.is_file():
            shutil.copy(file, tmp_path / "conf" / file.name)
            shutil.copy(file, tmp_path)
    for name in set(re.findall(r"[\w/]+\.py\b", (tmp_path / "job.yaml").read_text())):
        (tmp_path / name).touch()
    more = ["-c", "./cluster.yaml"] if (tmp_path / "cluster.yaml").exists() else []
    answer = jobgen("plan", "job.yaml", *more)
    assert answer.out, answer.err
    check_screen(answer.out)


@pytest.mark.parametrize("cluster", one_of_each(PROFILES, PROFILES[::4]))
def test_every_profile_has_a_short_screen_for_a_job_that_may_not_fit(
    jobgen: Jobgen, cluster: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(LLAMA)
    answer = jobgen("plan", "job.yaml", "-c", cluster)
    assert answer.out, answer.err
    check_screen(answer.out)
    assert ("GiB per GPU (90 %: " in answer.out) != ("not estimated" in answer.out)


# ---- one job with everything


MANY = """\
name: NAME
nodes: 2
time: 4h
run: trian.py
gpus_per_node: 8
secrets: [ABSENT_ONE, ABSENT_TWO]
array: 0-35999
slurm: {constraint: a100-80g}
checkpoint: {requeue: true, max_requeues: 99, signal: USR1}
train: {model: meta-llama/Llama-3.1-70B, strategy: 3d, tp: 8, micro_batch: 1, framework: megatron}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").touch()
    (tmp_path / "job.yaml").write_text(LLAMA)
    return tmp_path


ON = ("plan", "job.yaml", "-c", "a100x16")


def test_a_wide_screen_is_used(
    jobgen: Jobgen, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = jobgen(*ON, "--set", "container={image: /shared/image.sqsh, runtime: pyxis}").out
    assert "per node), in /shared/image.sqsh (pyxis)\n" in text


def test_a_job_with_everything_wrong_still_fits(jobgen: Jobgen, folder: Path) -> None:
    for name in ("x", "x" * 64):
        (folder / "job.yaml").write_text(MANY.replace("NAME", name))
        answer = jobgen(*ON)
        assert answer.code == Exit.INVALID
        check_screen(answer.out)
        assert "[fail] trian.py is not in the job's folder" in answer.out
        assert f"more: {shlex.join(['jobgen', *ON])} --section checks" in answer.out
        errors, warnings = answer.out.index("[fail]"), answer.out.index("[note]")
        assert errors < answer.out.index("\nMemory ") < warnings


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Preview:
    """What the screen of a job that does not fit is drawn from."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "train.py").touch()
    (folder / "job.yaml").write_text(LLAMA)
    world = World(environ={}, cwd=folder, home=tmp_path_factory.mktemp("home"))
    ready = prepare(world, folder / "job.yaml", "a100x16")
    call = Invocation("job.yaml", Flags())
    return Preview(plan_extras.plan(world, ready), estimate_job(ready), call)


@given(
    st.lists(st.integers(1, 120), max_size=12),
    st.lists(st.integers(1, 120), max_size=12),
    st.booleans(),
)
@example(errors=[1] * 9, notes=[1] * 9, trained=True)
@example(errors=[120], notes=[120], trained=True)
def test_the_screen_is_short_however_many_problems_there_are(
    drawn: Preview, errors: list[int], notes: list[int], trained: bool
) -> None:
    failed = tuple(PlanCheck("fail", "wrong " * n, "J220", "mend it") for n in errors)
    answer = drawn.answer._replace(failed=failed)
    if not trained:
        answer = answer._replace(advice=Advised(None))
    noted = tuple(Diagnostic("J227", "look " * n, severity="note") for n in notes)
    ready = drawn.planned.ready
    ready = ready._replace(plan=ready.plan._replace(notes=noted, checks=()))
    planned = drawn.planned._replace(ready=ready)
    text = draw(drawn._replace(planned=planned, answer=answer), Ink())
    check_screen(text)
    assert ("[fail]" in text) == bool(errors)
    assert ("[note]" in text) == bool(notes)
    shown = text.count("[fail]") + text.count("[note]")
    hidden = sum(int(n) for n in re.findall(r" and (\d+) more: jobgen", text))
    assert shown + hidden == len(errors) + len(notes)


@pytest.mark.parametrize(
    ("keys", "verdict", "decides"),
    [
        (
            "strategy: ddp, micro_batch: 1, seq_len: 2048",
            "does not fit: .* per GPU ",
            r"largest part: moments, [0-9.]+ GiB",
        ),
        (
            "strategy: fsdp2, micro_batch: 1, seq_len: 8192, activation_checkpointing: selective",
            "fits: .* per GPU ",
            r"assumes no accumulation \(with it: \+[0-9.]+ GiB, tight\)",
        ),
        (
            "strategy: 3d, tp: 4, pp: 2, micro_batch: 1, seq_len: 12288, global_batch: 64",
            "tight: .* on pipeline rank 0 ",
            r"assumes \S.* \(\w+: -[0-9.]+ GiB, fits[^)]*\)",
        ),
    ],
    ids=["ddp", "fsdp2", "pipeline"],
)
def test_the_verdict_and_what_decides_stand_first_in_the_memory(
    jobgen: Jobgen, folder: Path, keys: str, verdict: str, decides: str
) -> None:
    """The parts and their bar stand in the section."""
    train = f"train: {{model: meta-llama/Llama-3.1-8B, {keys}}}"
    (folder / "job.yaml").write_text(f"name: llama\nnodes: 2\ntime: 4h\nrun: train.py\n{train}\n")
    text = jobgen(*ON).out
    first, second = text[text.index("\nMemory ") + 1 :].split("\n\n")[0].splitlines()
    assert re.fullmatch(rf"Memory    {verdict}\(90 %: \S+\)", first)
    assert re.search(r": needs [0-9.]+ of 79.2 GiB ", first)
    assert re.fullmatch(f" {{10}}{decides}", second)
    assert "| is the limit" not in text
    assert "| is the limit" in jobgen(*ON, "--section", "memory").out


def test_every_section_is_shown_alone_and_all_are_in_v(jobgen: Jobgen, folder: Path) -> None:
    assert tuple(plan_sections.SECTIONS) == SECTIONS.KNOWN
    whole = jobgen(*ON, "-v").out
    alone = {name: jobgen(*ON, "-v", "--section", name).out for name in SECTIONS.KNOWN}
    for name, text in alone.items():
        assert text.strip(), name
        assert name == "checks" or text in whole
        assert "Next:" not in text
    assert sum(len(text) for name, text in alone.items() if name != "checks") < len(whole)
    both = jobgen(*ON, "--section", "sbatch,env", "--section", "env").out
    assert both == f"{alone['sbatch']}\n{alone['env']}"
    assert whole.splitlines()[-1].startswith("Next: jobgen ")


def test_v_shows_warnings_before_any_section(jobgen: Jobgen, folder: Path) -> None:
    (folder / "job.yaml").write_text(MANY.replace("NAME", "x"))
    text = jobgen(*ON, "-v").out
    last = max(text.rindex(mark) for mark in ("[fail]", "[note]"))
    assert last < text.index("\nMemory per GPU") < text.index("\nDecisions")
    assert " more: jobgen" not in text[: text.index("\nDecisions")]


@pytest.mark.parametrize(
    ("name", "meant"), [("sbtach", "sbatch"), ("upload", "files"), ("strategies", "memory")]
)
def test_an_unknown_section_is_answered_with_the_names(
    jobgen: Jobgen, folder: Path, name: str, meant: str
) -> None:
    answer = jobgen(*ON, "--section", f"env,{name}")
    assert answer.code == Exit.USAGE
    assert f"unknown section '{name}'. Did you mean '{meant}'?" in " ".join(answer.err.split())
    assert ", ".join(SECTIONS.KNOWN) in answer.err
    assert ", ".join(SECTIONS.KNOWN) in " ".join(jobgen("plan", "-h").out.split())


def test_sections_complete_one_after_the_other(folder: Path) -> None:
    words = {"COMP_WORDS": "jobgen plan job.yaml --section env,s", "COMP_CWORD": "4"}
    done = process(cwd=folder, _JOBGEN_COMPLETE="bash_complete", **words)
    assert done.stdout.split() == ["plain,env,steps", "plain,env,sbatch"]


PACKED = """\
name: scan
nodes: 2
time: 4h
sweep:
  random: {samples: 200, values: {LR: {log: [1e-5, 1e-3]}}}
  pack: {gpus: 1}
run: train.py --lr ${LR}
"""


def test_a_packed_sweep_shows_workers_rounds_and_the_time_of_an_element(
    jobgen: Jobgen, folder: Path
) -> None:
    (folder / "job.yaml").write_text(PACKED)
    text = " ".join(jobgen(*ON).out.split())
    assert re.search(r"^scan on a100x16: 2 nodes . 8 A100-SXM4-80GB = 16 GPUs, 4h 0m", text)
    assert "Cost up to 64 GPU-hours" in text
    workers = "Workers 16 workers with 1 GPU each, 13 rounds: "
    assert f"{workers}fits in 4h 0m if an element takes up to 18m 27s" in text
    assert "Sweep 0 LR=" in text
    assert "196 more (-v)" in text
    assert "Launch plain, 1 rank per element, 32 CPUs per rank (32 per element)" in text
    decided = " ".join(jobgen(*ON, "--section", "decisions").out.split())
    assert "ranks_per_element 1" in decided
    assert "ranks_per_node" not in decided
    assert "elements 200 elements each runs once, on one of the workers" in decided
    once = " ".join(jobgen(*ON, "--set", "sweep.random.samples=16").out.split())
    assert "1 round: each element may take 4h 0m" in once
    resources = json.loads(jobgen(*ON, "--json").out)["data"]["resources"]
    assert (resources["nodes"], resources["gpus_per_node"]) == (2, 8)
    assert (resources["elements"], resources["workers"], resources["world_size"]) == (200, 16, 1)


def test_a_section_without_content_says_so(jobgen: Jobgen, folder: Path) -> None:
    (folder / "job.yaml").write_text(LLAMA.partition("train:")[0])
    answer = jobgen(*ON, "--section", "memory")
    assert answer.out == "No memory estimate: the job has no train: section\n"
    short = jobgen(*ON).out
    assert "Memory    not estimated; add train: {model: NAME} to the job\n" in short
    compared = jobgen("plan", "job.yaml", "--compare", "local,a100x16").out
    assert compared.count("Nothing to compare: the job has no train: section") == 1
    page = jobgen(*ON, "--html", "page.html")
    assert (page.code, "add train: {model: NAME}" in page.err) == (2, True)
    table = jobgen(*ON, "--nodes", "1,2").out
    assert "How it scales\n  not estimated: the job has no train: section\n" in table


def test_q_is_the_verdict_in_one_line(jobgen: Jobgen, folder: Path) -> None:
    answer = jobgen(*ON, "-q")
    assert answer.code == Exit.UNFIT
    assert re.fullmatch(r"llama on a100x16: not ready: does not fit: .* 79\.2 GiB\n", answer.out)
    answer = jobgen(*ON, "-q", "--set", "train.model=meta-llama/Llama-3.2-1B")
    assert answer.code == Exit.DONE
    shape = r"up to 32 GPU-hours, memory fits \(\d+\.\d of 79\.2 GiB\), 1 warning, 1 note"
    assert re.fullmatch(rf"llama on a100x16: ready, {shape}\n", answer.out)


def test_a_difference_is_shown_alone_with_the_verdict(jobgen: Jobgen, folder: Path) -> None:
    plain = "name: p\nnodes: 1\nprocs_per_node: 1\ntime: 1h\nlauncher: plain\nrun: 'true'\n"
    (folder / "job.yaml").write_text(plain)
    here = ("job.yaml", "-c", "local")
    assert jobgen("submit", *here, "-q", "--wait").code == Exit.DONE
    same = jobgen("plan", *here, "--diff", "--exit-code")
    assert same.code == Exit.DONE
    assert same.out.startswith("Since p-1\nno differences in ")
    changed = jobgen("plan", *here, "--set", "time=2h", "--exit-code")
    assert changed.code == Exit.DIFFERENT
    assert changed.out.startswith("Since p-1\njob.sbatch: different\n")
    assert "\n-#SBATCH --time=01:00:00" in changed.out
    assert changed.out.endswith("\n\np on local: ready\n")
    for text in (same.out, changed.out):
        assert not re.search(r"^(Launch|Uploads|Details|Next)", text, re.MULTILINE)
    assert (
        "\nLast run  p-1: scripts unchanged (your own files are not compared)\n"
        in jobgen("plan", *here).out
    )
    assert "differ: --diff shows how" in jobgen("plan", *here, "--set", "time=2h").out


def test_json_is_the_same_whatever_the_screen(jobgen: Jobgen, folder: Path) -> None:
    texts = {
        jobgen(*ON, "--json", *more).out for more in ([], ["--section", "env"], ["-v"], ["-q"])
    }
    assert len(texts) == 1


def find_next(text: str) -> list[str]:
    """The words of the command in the last line."""
    return shlex.split(text.splitlines()[-1].removeprefix("Next: jobgen "))


def test_the_next_command_of_what_does_not_fit_leads_to_what_does(
    jobgen: Jobgen, folder: Path
) -> None:
    answer = jobgen(*ON)
    assert answer.code == Exit.UNFIT
    words = find_next(answer.out)
    assert words[0] == "plan"
    better = jobgen(*words)
    assert better.code == Exit.DONE
    assert find_next(better.out) == ["submit", *words[1:]]
    assert jobgen(*find_next(better.out), "--dry-run").code == Exit.DONE
    forced = find_next(jobgen(*ON, "--force").out)
    assert forced == ["submit", "job.yaml", "-c", "a100x16", "--force"]
    rehearsed = jobgen(*forced, "--dry-run")
    assert rehearsed.code == Exit.DONE
    assert find_next(rehearsed.out) == forced


def test_cpus_are_those_of_a_rank_and_of_a_node(jobgen: Jobgen, folder: Path) -> None:
    for asked, rank, node in ((["--set", "cpus_per_task=4"], 4, 32), ([], 32, 256)):
        answer = jobgen(*ON, *asked)
        shown = f"{rank} CPUs per rank ({node} per node)"
        assert shown in answer.out
        decisions = jobgen(*ON, *asked, "--section", "decisions").out
        assert re.search(rf"cpus_per_task +{re.escape(shown)}", decisions)
        resources = json.loads(jobgen(*ON, *asked, "--json").out)["data"]["resources"]
        assert (resources["cpus_per_rank"], resources["cpus_per_node"]) == (rank, node)


# ---- submit

SITE = """\
name: c
scheduler: slurm
ssh: {host: nowhere.invalid, user: ann}
paths: {root: /scratch/jobgen}
network: {fabric: ethernet}
confirm: {gpu_hours: 10}
nodes: {count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}
"""
TINY = "name: tiny\nnodes: 1\ntime: 4h\nrun: train.py\n"


def test_a_missing_secret_is_reported_once(jobgen: Jobgen, folder: Path) -> None:
    (folder / "job.yaml").write_text(f"{TINY}secrets: [ABSENT]\n")
    for words in (["plan"], ["plan", "-v"], ["submit"], ["submit", "--force"], ["submit", "-n"]):
        answer = jobgen(*words, "job.yaml", "-c", "local")
        assert answer.code == Exit.FAILED, words
        text = answer.out + answer.err
        assert text.count("J221") == 1, text
        assert "J152" not in text


def test_nothing_is_said_of_an_upload_before_the_connection_stands(
    jobgen: Jobgen, folder: Path
) -> None:
    (folder / "job.yaml").write_text(TINY)
    (folder / "c.yaml").write_text(SITE)
    words = ("job.yaml", "-c", "./c.yaml", "-y", "--trust", "ann@nowhere.invalid:/scratch/jobgen")
    answer = jobgen("submit", *words)
    assert answer.code == Exit.UNREACHABLE, answer.err
    assert "nowhere.invalid" in answer.err
    assert "upload" not in answer.err


def test_ranks_of_all_groups_are_counted(jobgen: Jobgen, folder: Path) -> None:
    (folder / "job.yaml").write_text(
        "name: g\ntime: 1h\nlauncher: srun\ngroups:\n"
        "  a: {nodes: 1, run: ./a, procs_per_node: 2}\n"
        "  b: {nodes: 4, run: ./b, procs_per_node: 1}\n"
    )
    site = "name: c\nscheduler: slurm\npaths: {root: /s}\nnodes: {count: 8, cpus: 64}\n"
    (folder / "c.yaml").write_text(f"{site}network: {{fabric: ethernet}}\n")
    plan = jobgen("plan", "job.yaml", "-c", "./c.yaml").out
    assert plan.startswith("g on c: 5 nodes, 6 ranks, 1h 0m\n")
    data = json.loads(jobgen("plan", "job.yaml", "-c", "./c.yaml", "--json").out)["data"]
    assert data["resources"]["world_size"] == 6


def test_a_costly_job_is_asked_about_below_its_plan(folder: Path) -> None:
    (folder / "job.yaml").write_text(TINY)
    (folder / "c.yaml").write_text(SITE)
    terminal = Terminal(folder, "submit", "job.yaml", "-c", "./c.yaml", columns=80)
    terminal.child.expect_exact("Submit? [y/N] ")
    terminal.child.sendline("n")
    assert terminal.ended() == Exit.USAGE
    lines = terminal.text.splitlines()
    assert lines[0] == "tiny on c: 1 node \u00d7 8 A100-SXM4-80GB = 8 GPUs, 4h 0m"
    assert lines[1] == "Cost      up to 32 GPU-hours"
    assert any(line.startswith("Uploads   3 files") for line in lines)
    assert "This may use 32 GPU-hours (asked above 10). Submit? [y/N] n" in lines
    assert not any(line.startswith(("Next:", "Details")) for line in lines)


def test_a_dry_run_begins_with_the_short_plan(jobgen: Jobgen, folder: Path) -> None:
    (folder / "job.yaml").write_text(TINY)
    text = jobgen("submit", "job.yaml", "-c", "a100x16", "--dry-run").out
    short = jobgen("plan", "job.yaml", "-c", "a100x16").out
    assert text.startswith(short[: short.index("Details")])
    for title in ("WOULD RUN", "Environment of every rank", "Files of the run directory", "Upload"):
        assert f"\n\n{title}" in text


def test_every_screen_has_the_same_amount_of_needed_memory(jobgen: Jobgen, folder: Path) -> None:
    """As NEEDS of the table, -q and lint have it."""
    train = "train: {model: meta-llama/Llama-3.1-8B, strategy: fsdp2, micro_batch: 8}"
    (folder / "job.yaml").write_text(f"name: llama\nnodes: 1\ntime: 4h\nrun: train.py\n{train}\n")
    first = re.search(r"Memory +does not fit: needs (\S+) of", jobgen(*ON).out)
    assert first
    amount = first[1]
    table = jobgen(*ON, "--section", "memory").out
    assert re.search(rf"^> fsdp2 +{amount} GiB ", table, re.MULTILINE)
    assert f"needs {amount} of 79.2 GiB" in " ".join(table.split())
    assert f"needs about {amount} GiB" in jobgen(*ON, "-q").err + jobgen(*ON, "-q").out
    assert f"needs about {amount} GiB" in jobgen("lint", *ON[1:]).out


@pytest.mark.parametrize(("strategy", "marked"), [("", True), ("strategy: ddp, ", False)])
def test_a_strategy_that_the_job_does_not_set_is_marked(
    jobgen: Jobgen, folder: Path, strategy: str, marked: bool
) -> None:
    train = f"train: {{{strategy}model: meta-llama/Llama-3.2-1B, seq_len: 2048, micro_batch: 1}}"
    (folder / "job.yaml").write_text(f"name: llama\nnodes: 1\ntime: 4h\nrun: train.py\n{train}\n")
    for section in ((), ("--section", "memory")):
        assert ("DDP (assumed)" in jobgen(*ON, *section).out) is marked


@pytest.mark.parametrize(
    ("head", "cost"),
    [
        ("time: 4h", r"up to 64 GPU-hours, enough for (\S+) million tokens"),
        ("time: 4h\nsweep: {grid: {LR: [1, 2]}}", r"up to 128 GPU-hours()"),
    ],
    ids=["one training", "sweep"],
)
def test_the_summary_has_the_work_of_a_step_of_all_gpus_and_of_the_job_s_time(
    jobgen: Jobgen, folder: Path, head: str, cost: str
) -> None:
    keys = "micro_batch: 1, gradient_accumulation: 4, seq_len: 4096"
    train = f"train: {{model: meta-llama/Llama-3.1-8B, strategy: zero2, {keys}}}"
    (folder / "job.yaml").write_text(f"name: llama\nnodes: 2\n{head}\nrun: train.py\n{train}\n")
    text = " ".join(jobgen(*ON).out.split())
    found = re.search(r" 64 \S 4096 tokens per step, ([0-9,]+) tokens/s ", text)
    assert found, text
    rate = float(found[1].replace(",", ""))
    enough = re.search(rf"Cost {cost} ", text)
    assert enough, text
    if enough[1]:
        assert float(enough[1]) == pytest.approx(rate * 4 * 3600 / 1e6, rel=0.01)
    rows = json.loads(jobgen(*ON, "--json").out)["data"]["estimate"]["strategies"]
    (row,) = [row for row in rows if row["chosen"]]
    assert row["batch"]["total"] == 64
    assert row["step"]["tokens_per_second"] == pytest.approx(rate, rel=0.01)


def test_a_refusal_goes_before_the_memory_in_the_next_command(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    text = "train: {framework: hf-trainer, model: meta-llama/Llama-3.1-8B, seq_len: 8192"
    (tmp_path / "job.yaml").write_text(
        f"name: q\nnodes: 1\ntime: 1h\nrun: train.py\n{text}, micro_batch: 8}}\n"
    )
    (tmp_path / "train.py").write_text("from transformers import HfArgumentParser\n")
    sets = ("--set", "train.strategy=fsdp2", "--set", "train.lora.bits=8")
    shown = jobgen("plan", "job.yaml", "-c", "a100x16", *sets)
    assert "J268" in shown.out
    assert "does not fit" in shown.out
    assert shown.out.rstrip().endswith("Next: jobgen explain J268")
    assert "J268" in jobgen("plan", "job.yaml", "-c", "a100x16", *sets, "--section", "memory").err
